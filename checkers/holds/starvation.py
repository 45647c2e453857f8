"""Time in which processes of the run, or its host, were starved of CPU: no lateness counts it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate

from holdfast.checkers.holds.leases import EXPIRY_SLACK_NS
from holdfast.harness.core.case import Case


class Cover:
    """The union of spans: how much of another span it covers, overlaps counted once.

    [(1, 3), (2, 5), (7, 8)] are the pieces 1..5 and 7..8, with 0 and 4 covered before them.
    """

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        for begin, over in sorted(spans):
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], over)
            elif over > begin:
                self._begins.append(begin)
                self._ends.append(over)
        lengths = (over - begin for begin, over in zip(self._begins, self._ends, strict=True))
        self._before = [0, *accumulate(lengths)]

    def ns(self, from_ns: int, until_ns: int) -> int:
        """How much is covered between two times."""
        return max(0, self._up_to(until_ns) - self._up_to(from_ns))

    def _up_to(self, t_ns: int) -> int:
        n = bisect_right(self._begins, t_ns)
        return self._before[n] - (max(0, self._ends[n - 1] - t_ns) if n else 0)


def starved_spans(case: Case) -> list[tuple[int, int]]:
    """Spans in which any process of the run, or its host, got no CPU time."""
    return [(one.from_ns, one.to_ns) for one in case.starved]


def starved_ns(case: Case, from_ns: int, until_ns: int) -> int:
    """How long any process of the run, or its host, got no CPU time between two times."""
    if not case.starved:
        return 0
    if "starved" not in case.memo:
        case.memo["starved"] = Cover(starved_spans(case))
    cover: Cover = case.memo["starved"]
    return cover.ns(from_ns, until_ns)


def without_starvation(case: Case) -> Case:
    """The same case as if no process had been starved: what is found in it alone is unknown."""
    memo = {name: known for name, known in case.memo.items() if name != "starved"}
    return replace(case, starved=(), memo=memo)


def overdue_ns(case: Case, end_ns: int) -> int:
    """Until when a service may not have noticed that a lease ended; no time of a starved host
    counts."""
    over_ns = end_ns + EXPIRY_SLACK_NS
    while (later := end_ns + EXPIRY_SLACK_NS + starved_ns(case, end_ns, over_ns)) > over_ns:
        over_ns = later
    return over_ns
