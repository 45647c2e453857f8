"""Places at which a lock answered what a client could not know by itself: a query, a release that
counts entries, an acquire with a condition, a grant that another client's query names."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import Indices, Ints, column, rows_of
from holdfast.checkers.holds.overlaps import granted, slack
from holdfast.checkers.opportunities.places.near_faults import Places
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status

QUERIES = (Op.HOLDER, Op.PLACE, Op.LENGTH, Op.CHECK)


def answers(case: Case) -> Places:
    """Answers about a lock of which a grant was known before the call."""
    status, key = column(case, "status"), column(case, "key")
    rows = rows_of(case, *QUERIES)
    checked = (column(case, "f")[rows] == Op.CHECK) & (status[rows] == Status.FAIL)
    rows = np.concatenate((rows[(status[rows] == Status.OK) | checked], *_by_owners(case)))
    last, inv = np.full(len(rows), -1), column(case, "t_inv")
    for lock, entries in granted(case).items():
        mine = np.flatnonzero(key[rows] == lock)
        if not len(entries):
            continue
        known = table(case).known[entries] + slack(case)
        place = np.searchsorted(known, inv[rows[mine]], "left") - 1
        last[mine] = np.where(place >= 0, table(case).row[entries[place]], -1)
    rows, last = rows[last >= 0], last[last >= 0]
    return Places(column(case, "t_ret")[rows], inv[last], {"grant": last, "answer": rows})


def _by_owners(case: Case) -> Iterator[Indices]:
    """Releases that reported the entries left, and answered acquires with a condition."""
    released = rows_of(case, Op.RELEASE)
    counts = (column(case, "res")[released] > 0) & (column(case, "status")[released] == Status.OK)
    yield released[counts]
    attempts = table(case)
    asked = attempts.mode == Mode.EXCLUSIVE
    asked &= (column(case, "op")[attempts.row] >> 8 > 0) & ~attempts.unknown
    yield attempts.row[asked]


def named_waiters(case: Case) -> Places:
    """Grants to clients that had waited, which a query named within the time of a notice: if the
    client had learned of it later than that, this query would show it."""
    attempts, token, key = table(case), column(case, "token"), column(case, "key")
    queries = rows_of(case, Op.HOLDER)
    named = (column(case, "status")[queries] == Status.OK) & (token[queries] != NO_TOKEN)
    queries = queries[named]
    if not len(queries):
        none = np.zeros(0, np.intp)
        return Places(none, none, {"waiter": none, "named": none})
    queries = queries[np.argsort(column(case, "t_ret")[queries], kind="stable")]
    first = dict[tuple[int, int], int]()
    for name, row in zip(_names(key, token, queries), queries.tolist(), strict=True):
        first.setdefault(name, row)
    waited = (attempts.queued >= 0) & (token[attempts.row] != NO_TOKEN)
    waited &= (attempts.status == Status.OK) | (attempts.status == Status.INFO)
    mine = np.flatnonzero(waited)
    by = [first.get(name, -1) for name in _names(key, token, attempts.row[mine])]
    query = np.array(by, np.intp)
    mine, query = mine[query >= 0], query[query >= 0]
    in_time = column(case, "t_ret")[query] < attempts.ret[mine] + case.promises.notice_ns
    mine, query = mine[in_time], query[in_time]
    t_ns: Ints = np.maximum(column(case, "t_ret")[query], attempts.ret[mine])
    return Places(t_ns, attempts.inv[mine], {"waiter": attempts.row[mine], "named": query})


def _names(key: Ints, token: Ints, rows: Indices) -> Iterator[tuple[int, int]]:
    """The lock and the token of each row."""
    yield from zip(key[rows].tolist(), token[rows].tolist(), strict=True)
