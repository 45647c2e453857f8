"""All chance in a run: named random streams that grow from one printed seed."""

from __future__ import annotations

import hashlib
import random


def stream(seed: int, *name: str | int) -> random.Random:
    """A generator of its own for each name, so that removing one user leaves the others alone.

    The name is hashed, not summed, because `hash(str)` differs from process to process.
    """
    text = "\x1f".join([str(seed), *(str(part) for part in name)])
    return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))
