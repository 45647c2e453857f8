"""What a run has shown so far, for the schedule of faults: its holders, how often events happened.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.harness.plans.events import Event

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


class EventCounts:
    """How often each event happened in a run so far, and when it did last."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], tuple[int, int]] = {}

    def add(self, op: int, outcome: int, t_ns: int) -> None:
        """A row was begun (`Status.INVOKED`) or answered, at `t_ns` on the clock of the run."""
        count, last_ns = self._seen.get((op, outcome), (0, 0))
        self._seen[op, outcome] = count + 1, max(last_ns, t_ns)

    def happened(self, what: Event) -> tuple[int, int]:
        """(how often, time of the last one in ns, 0 if none)."""
        counts = list(self._of(what))
        return sum(count for count, _ in counts), max((t_ns for _, t_ns in counts), default=0)

    def _of(self, what: Event) -> Iterator[tuple[int, int]]:
        for op in what.ops:
            for outcome in what.outcomes:
                yield self._seen.get((op, outcome), (0, 0))
