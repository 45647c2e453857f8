"""Writes that reached the resource after their owner's hold had certainly ended.

The checker of no-expired-write judges them; the coverage of that property and the evidence count
them: all three use the same list.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.checkers.facts import resource_log
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import INF, Attempt
from holdfast.checkers.holds.history_index import column
from holdfast.checkers.holds.hold_end import (
    HoldEnd,
    certain_end,
    lease_ran_by_itself,
    may_have_ended,
)
from holdfast.checkers.holds.owners import sharing
from holdfast.checkers.holds.reentry import reported_over_ns
from holdfast.checkers.holds.starvation import overdue_ns
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op

Late = tuple[resource_log.Request, Attempt, HoldEnd]
"""A decided write, the attempt that sent it, and the end of that attempt's hold."""


def late_writes(case: Case) -> Sequence[Late]:
    """All late writes, accepted and rejected, in the order of the resource's log; memoised.

    A client that was refused had no hold that could end. Columns select the few that are checked
    one by one: O(n log n).
    """
    if "late_writes" not in case.memo:
        found, rows = table(case), resource_log.log(case).rows
        if not len(rows):
            case.memo["late_writes"] = []
            return []
        entry = found.of_rows(rows)
        write = np.flatnonzero((column(case, "f")[rows] == Op.SERVED_WRITE) & (entry >= 0))
        write = write[(found.ok | found.unknown)[entry[write]]]
        over = may_have_ended(case)[entry[write]]
        which = write[column(case, "t_inv")[rows[write]] > over + case.error_ns]
        attempts = found.pick(entry[which])
        told: list[Late] = []
        for request, attempt in zip(resource_log.requests(case, which), attempts, strict=True):
            end = certain_end(case, attempt)
            after = end is not None and request.from_ns > end.t_ns + case.error_ns
            if end is not None and after and not _inside_again(case, attempt, request.from_ns):
                told.append((request, attempt, end))
        case.memo["late_writes"] = told
    known: list[Late] = case.memo["late_writes"]
    return known


def _inside_again(case: Case, a: Attempt, t_ns: int) -> bool:
    """Whether its owner may have held the lock at t_ns by another attempt: one that re-entered it,
    or that shares what was its own before."""
    attempts = table(case)
    if not sharing(case)[attempts.of_id([a.id])[0]]:
        return False
    group = attempts.beside(a.key)
    mine = group[(attempts.process[group] == a.process) & (attempts.id[group] != a.id)]
    called = mine[(attempts.inv[mine] <= t_ns) & (attempts.over[mine] >= 0)]
    return any(t_ns <= _over_ns(case, other) + case.error_ns for other in attempts.pick(called))


def _over_ns(case: Case, a: Attempt) -> int:
    """When an entry was certainly over: as reported, or by its lease, which a service may end late.

    The end of a lease alone proves nothing here: its owner may still be let in.
    """
    over_ns = reported_over_ns(case, a)
    if a.possible is None or a.possible[1] >= INF or not lease_ran_by_itself(case, a):
        return over_ns
    return min(over_ns, overdue_ns(case, a.possible[1]))
