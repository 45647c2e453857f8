"""The current holders of a run, for the schedule of faults. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

LOOK_S = 0.002
"""Interval between two reads of the holders while a fault waits for one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """An ok acquire for which no release was sent, as far as the rows show."""

    process: int
    node: str
    attempt: int
    since_ns: int
