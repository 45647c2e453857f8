"""The rows of a case as columns, with an index by attempt, process and lock.

Of the responses that an attempt waits, those for a place in the queue that it lost do not count. A
place ends with the session, connection or lease that it was taken in. A library that then joins the
queue again in the same call has a later place, and who came between has overtaken no one.

    c1   |--acquire--waits--------session ends--waits--------granted|     only the second counts
    c2                       |-----------acquire------granted--|          no overtake
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from holdfast.checkers.holds.leases import INF
from holdfast.harness.core.case import Case, among, memoised
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history.distinct_values import numbered

UNKNOWN = (Status.INFO, Status.INVOKED)

SMALL = ("f", "mode", "status")
"""Columns that are compared and never added up."""
RARE = ("tx", "rx", "err", "late", "spent", "writer", "row")
"""Columns that are read once or twice: kept as int64 they would be a sixth of all memory."""
Ints = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]
RowIndices = Indices
"""Rows of the merged history: `column(case, name)[rows]`. Of a history of 9 rows, 0 to 8."""
EntryIndices = Indices
"""Entries of the table of attempts, one per acquire: `table(case).token[entries]`. An entry is no
row: `table(case).row[entries]` are the rows of its acquires. A lock is neither: it is an index
into `history.strings`, called `key`."""
Places = Indices
"""Places in another array of rows or entries: `rows[places]`."""
Bools = npt.NDArray[np.bool_]


def column(case: Case, name: str) -> Ints:
    """One column of the history as a contiguous array of shape (number of rows,), of int64, int8
    for SMALL; kept unless RARE.

    Not to be changed: it may be the column of the history itself.
    """
    known: dict[str, Ints] = case.memo.setdefault("columns", {})
    if name in known:
        return known[name]
    recorded = case.history.rows[name]
    values: Ints = np.ascontiguousarray(recorded, np.dtype("i1" if name in SMALL else "i8")).view()
    values.flags.writeable = False
    if name not in RARE:
        known[name] = values
    return values


def took(case: Case) -> Ints:
    """Duration of each call as its client measured it, ns; kernel timestamps do not shorten it."""
    rows = case.history.rows  # not `column`, which would keep wide copies of tx and rx
    lasted = column(case, "t_ret") - column(case, "t_inv")
    lasted += rows["tx"]
    lasted += rows["rx"]
    return lasted


def attempt_numbers(case: Case) -> tuple[int, Ints]:
    """(n, of each row a number below n, which its attempt alone has and which is larger for a
    larger attempt); memoised."""
    if case.history.attempts is not None:
        return case.history.attempts
    if "attempt numbers" not in case.memo:
        attempts, _, of = numbered(column(case, "attempt"))
        case.memo["attempt numbers"] = len(attempts), of
    numbers: tuple[int, Ints] = case.memo["attempt numbers"]
    return numbers


FEW_KINDS = 4
NO_ROWS: RowIndices = np.empty(0, np.intp)


def rows_of(case: Case, *ops: Op) -> RowIndices:
    """The rows of these kinds, in order. Not to be changed: those of few kinds, which
    several checkers ask for, are kept with the case."""
    known: dict[tuple[Op, ...], RowIndices] = case.memo.setdefault("rows_of", {})
    if ops in known:
        return known[ops]
    if "kinds of row" not in case.memo:
        counts = np.bincount(column(case, "f"))
        case.memo["kinds of row"] = frozenset(np.flatnonzero(counts).tolist())
    there = case.memo["kinds of row"].intersection(ops)
    rows: RowIndices = np.flatnonzero(among(column(case, "f"), there)) if there else NO_ROWS
    rows.flags.writeable = False
    if len(ops) <= FEW_KINDS:
        known[ops] = rows
    return rows


@memoised
def acknowledged(case: Case) -> RowIndices:
    """Rows WAITING that count, in order."""
    rows, lost = rows_of(case, Op.WAITING), places_lost(case)
    return rows[~np.isin(rows, sorted(lost))] if lost else rows


@memoised
def places_lost(case: Case) -> frozenset[int]:
    """Rows WAITING that do not count: nearly always none. O(n log n)"""
    waits, ends = rows_of(case, Op.WAITING), rows_of(case, Op.LOST, Op.CLOSED)
    if not len(waits) or not len(ends):
        return frozenset()
    attempt, process, inv = (column(case, name) for name in ("attempt", "process", "t_inv"))
    returned = _returns(case, attempt[waits])
    lost = np.zeros(len(waits), bool)
    # An end without an attempt is that of the session of a process.
    for own, of in ((ends[attempt[ends] == 0], process), (ends[attempt[ends] != 0], attempt)):
        lost |= _next((of[own], inv[own]), (of[waits], inv[waits])) < returned
    return frozenset(waits[lost].tolist())


def _returns(case: Case, attempts: Ints) -> Ints:
    """When the acquire of each of some attempts returned; INF if it did not."""
    asks, ret = rows_of(case, Op.ACQUIRE, Op.TRY, Op.PROBE), column(case, "t_ret")
    if not len(asks):
        return np.full(len(attempts), INF)
    own = column(case, "attempt")[asks]
    order = np.argsort(own, kind="stable")
    row = asks[order][np.minimum(np.searchsorted(own[order], attempts), len(asks) - 1)]
    known = (column(case, "attempt")[row] == attempts) & (ret[row] > 0)
    return np.where(known, ret[row], INF)


def _next(events: tuple[Ints, Ints], asked: tuple[Ints, Ints]) -> Ints:
    """Of each (group, time) the time of the next event of that group, from that time on; INF if
    there is none.

    events (7, 3) (7, 9) (8, 4), asked (7, 3) (7, 5) (8, 5): 3, 9, INF
    """
    n = len(events[0])
    _, group = np.unique(np.concatenate((events[0], asked[0])), return_inverse=True)
    times, rank = np.unique(np.concatenate((events[1], asked[1])), return_inverse=True)
    # Pairs as one number, in the same order: of ranks below 100, group 2 rank 5 is 205.
    pair = group * len(times) + rank
    known = np.append(np.sort(pair[:n]), np.iinfo(np.int64).max)
    following = known[np.searchsorted(known, pair[n:])]
    same = following // len(times) == pair[n:] // len(times)
    return np.where(same, times[following % len(times)], INF)
