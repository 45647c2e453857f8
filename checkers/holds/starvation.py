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

    def uncovered_ns(self, from_ns: int, length_ns: int) -> int:
        """The first time by which so much since from_ns is not covered: 3 ns from 2 on, with the
        pieces 1..5 and 7..8, are over at 9."""
        at_ns, left_ns = from_ns, length_ns
        for n in range(bisect_right(self._ends, from_ns), len(self._begins)):
            gap_ns = max(0, self._begins[n] - at_ns)
            if gap_ns >= left_ns:
                break
            at_ns, left_ns = self._ends[n], left_ns - gap_ns
        return at_ns + left_ns

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
    return _cover(case).ns(from_ns, until_ns)


def _cover(case: Case) -> Cover:
    if "starved" not in case.memo:
        case.memo["starved"] = Cover(starved_spans(case))
    cover: Cover = case.memo["starved"]
    return cover


def without_starvation(case: Case) -> Case:
    """The same case as if no process had been starved: what is found in it alone is unknown."""
    memo = {name: known for name, known in case.memo.items() if name != "starved"}
    return replace(case, starved=(), memo=memo)


def overdue_ns(case: Case, end_ns: int) -> int:
    """Until when a service may not have noticed that a lease ended; no time of a starved host
    counts."""
    if not case.starved:
        return end_ns + EXPIRY_SLACK_NS
    return _cover(case).uncovered_ns(end_ns, EXPIRY_SLACK_NS)
