"""The responses that an attempt waits, without those for a place in the queue that it lost.

A place ends with the session, connection or lease that it was taken in. A library that then queues
again in the same call has a later place, and who came between has not overtaken it.

    c1   |--acquire--waits--------session ends--waits--------granted|     only the second counts
    c2                       |-----------acquire------granted--|          no overtake
"""

from __future__ import annotations

import numpy as np

from holdfast.checkers.holds.history_index import Ints, RowIndices, column, rows_of
from holdfast.checkers.holds.leases import INF
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op


def acknowledged(case: Case) -> RowIndices:
    """Rows WAITING that count, in order. Memoised."""
    if "acknowledged" not in case.memo:
        rows, lost = rows_of(case, Op.WAITING), places_lost(case)
        if lost:
            rows = rows[~np.isin(rows, sorted(lost))]
        case.memo["acknowledged"] = rows
    kept: RowIndices = case.memo["acknowledged"]
    return kept


def places_lost(case: Case) -> frozenset[int]:
    """Rows WAITING that do not count: nearly always none. Memoised."""
    if "places lost" not in case.memo:
        case.memo["places lost"] = frozenset(_lost(case))
    lost: frozenset[int] = case.memo["places lost"]
    return lost


def _lost(case: Case) -> set[int]:
    waits, ends = rows_of(case, Op.WAITING), rows_of(case, Op.LOST, Op.CLOSED)
    if not len(waits) or not len(ends):
        return set()
    attempt, process, inv = (column(case, name) for name in ("attempt", "process", "t_inv"))
    returned = _returns(case, attempt[waits])
    lost = set[int]()
    for end in ends.tolist():
        of = attempt[waits] == attempt[end] if attempt[end] else process[waits] == process[end]
        gone = of & (inv[waits] <= inv[end]) & (inv[end] < returned)
        lost.update(waits[gone].tolist())
    return lost


def _returns(case: Case, attempts: Ints) -> Ints:
    """When the acquire of each of some attempts returned; INF if it did not."""
    asks, ret = rows_of(case, Op.ACQUIRE, Op.TRY, Op.PROBE), column(case, "t_ret")
    own = column(case, "attempt")[asks]
    order = np.argsort(own, kind="stable")
    place = np.searchsorted(own[order], attempts)
    place = np.minimum(place, max(0, len(asks) - 1))
    row = asks[order][place]
    known = (column(case, "attempt")[row] == attempts) & (ret[row] > 0)
    return np.where(known, ret[row], INF)
