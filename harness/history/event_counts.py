"""How often events happened in a run so far, for faults that wait for one."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.harness.plans.events import Event


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
