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


class CurrentHolds:
    """The holds in force, from grants and their ends in the order in which they are learned of."""

    def __init__(self) -> None:
        self._holds: dict[int, Hold] = {}
        self._ended: dict[int, None] = {}
        self.grants = 0

    def grant(self, hold: Hold) -> None:
        """An acquire returned ok; a hold that has ended before does not begin again."""
        self.grants += 1
        if hold.attempt not in self._ended:
            self._holds[hold.attempt] = hold

    def end(self, attempt: int) -> None:
        """A release was sent, or the holder was notified of a loss."""
        self._ended[attempt] = None
        self._holds.pop(attempt, None)

    def close(self, process: int) -> None:
        """All holds of a client ended with its session."""
        for hold in [h for h in self._holds.values() if h.process == process]:
            self.end(hold.attempt)

    def holds(self) -> list[Hold]:
        """Current holds, the most recently granted first."""
        return sorted(self._holds.values(), key=lambda hold: -hold.since_ns)
