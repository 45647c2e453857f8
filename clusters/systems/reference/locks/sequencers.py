"""Sequencers: a hold in one opaque word, to be shown to whoever has to know that it is in force."""

from __future__ import annotations

MODE = "exclusive"
"""Only these are given out: readers share a generation, and permits have no order."""


def written(lock: str, generation: int) -> str:
    """The sequencer of a hold: its lock, its mode, its token."""
    return f"{generation}.{MODE}.{lock}"


def read(sequencer: str) -> tuple[str, int] | None:
    """Lock and generation, None for what no hold ever had."""
    generation, _, rest = sequencer.partition(".")
    mode, _, lock = rest.partition(".")
    if mode != MODE or not lock or not generation.isdecimal() or len(generation) > 18:
        return None
    return lock, int(generation)
