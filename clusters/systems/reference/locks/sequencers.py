"""Sequencers: a hold as an opaque string, which others can check to be in force."""

from __future__ import annotations

MODE = "exclusive"
"""Only for this mode: readers share a generation, and permits have no order."""


def written(lock: str, generation: int) -> str:
    """The sequencer of a hold: its lock, its mode, its token."""
    return f"{generation}.{MODE}.{lock}"


def read(sequencer: str) -> tuple[str, int] | None:
    """Lock and generation, None for an invalid sequencer."""
    generation, _, rest = sequencer.partition(".")
    mode, _, lock = rest.partition(".")
    if mode != MODE or not lock or not generation.isdecimal() or len(generation) > 18:
        return None
    return lock, int(generation)
