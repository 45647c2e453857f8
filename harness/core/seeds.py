"""Randomness of a run: named random streams derived from one printed seed."""

from __future__ import annotations

import hashlib
import random


def stream(seed: int, *name: str | int) -> random.Random:
    """A separate generator per name, so that removing one does not change the others.

    The name is hashed with SHA, because `hash(str)` differs between processes.
    """
    text = "\x1f".join([str(seed), *(str(part) for part in name)])
    return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))
