"""The protected resource's log, in its own order, matched with the requests of the clients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.checkers.holds.history_index import Places, RowIndices, column, rows_of
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import ONCE, Op, Status

MODES_WITH_TOKENS = ("fenced", "strict")
"""Modes of a resource (`options["resource"]`) that reject outdated tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """Every request that the resource decided, oldest first.

    rows      indices into the merged history, of SERVED_READ and SERVED_WRITE rows
    sent      for each of them the client's own READ or WRITE row, -1 if none was recorded
    unlogged  client rows that returned ok although the log has no accepted request for them, nor,
              for such commands, for the one command of their key
    """

    rows: RowIndices
    sent: RowIndices
    unlogged: RowIndices


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One decided request. It was decided at some instant of [from_ns, to_ns].

    row, sent   rows of the resource's log and of the client (-1: none)
    name        identity of the op: client's process << 32 | row number in its segment
    base        version that a write builds on, -1 for a blind one (and for a read)
    version     the register's version after it
    """

    row: int
    sent: int
    key: int
    attempt: int
    token: int
    name: int
    write: bool
    accepted: bool
    base: int
    version: int
    from_ns: int
    to_ns: int


def log(case: Case) -> Log:
    """The resource's log; memoised in case.memo["served"]."""
    if "served" not in case.memo:
        case.memo["served"] = _log(case)
    found: Log = case.memo["served"]
    return found


def requests(case: Case, which: Places | None = None) -> Iterator[Request]:
    """The decided requests one by one, in the log's order; only these places of it. O(n)."""
    found = log(case)
    places = np.arange(len(found.rows)) if which is None else which
    rows = case.history.rows[found.rows[places]]
    writes = rows["f"] == Op.SERVED_WRITE
    columns = zip(
        found.rows[places].tolist(),
        found.sent[places].tolist(),
        rows["key"].tolist(),
        rows["attempt"].tolist(),
        rows["token"].tolist(),
        rows["op"].tolist(),
        writes.tolist(),
        (rows["status"] == Status.OK).tolist(),
        np.where(writes, rows["arg"], -1).tolist(),
        rows["res"].tolist(),
        rows["t_inv"].tolist(),
        rows["t_ret"].tolist(),
        strict=True,
    )
    for (
        row,
        sent,
        key,
        attempt,
        token,
        name,
        write,
        accepted,
        base,
        version,
        begun,
        done,
    ) in columns:
        yield Request(
            row=row,
            sent=sent,
            key=key,
            attempt=attempt,
            token=token,
            name=name,
            write=write,
            accepted=accepted,
            base=base,
            version=version,
            from_ns=begun,
            to_ns=done,
        )


def outdated(case: Case) -> RowIndices:
    """Rows of requests that the resource rejected because it had admitted a larger token.

    Their owner may be the rightful one: tokens that restart make its own the smaller.
    """
    found = log(case).rows
    highest = np.where(
        column(case, "f")[found] == Op.SERVED_WRITE,
        column(case, "aux")[found],
        column(case, "arg")[found],
    )
    stale = (column(case, "status")[found] == Status.FAIL) & (
        column(case, "token")[found] < highest
    )
    return np.compress(stale, found)


def _log(case: Case) -> Log:
    status = column(case, "status")
    served = _in_order(case, rows_of(case, Op.SERVED_READ, Op.SERVED_WRITE))
    served = served[(status[served] == Status.OK) | (status[served] == Status.FAIL)]
    asked = rows_of(case, Op.READ, Op.WRITE)
    names = column(case, "process")[asked] << 32 | column(case, "row")[asked]
    wanted = column(case, "op")[served]
    accepted = wanted[status[served] == Status.OK]
    answered = status[asked] == Status.OK
    named = (column(case, "aux")[asked] == ONCE) & (column(case, "f")[asked] == Op.WRITE)
    done = column(case, "key")[served[status[served] == Status.OK]]
    answered &= ~(named & np.isin(column(case, "key")[asked], done))
    return Log(
        rows=served,
        sent=_look_up(names, asked, wanted),
        unlogged=asked[answered & ~np.isin(names, accepted)],
    )


def _in_order(case: Case, served: RowIndices) -> RowIndices:
    """Sorted by writer, in the order in which the resource's processes ran, then by row number."""
    writers, writer = np.unique(column(case, "writer")[served], return_inverse=True)
    # Each process of a restarted resource counts its rows from 0 again. Writers b b a a of which b
    # began at 3, a at 8: b's rows come first.
    first = np.full(len(writers), np.iinfo(np.int64).max)
    np.minimum.at(first, writer, column(case, "t_inv")[served])
    order: RowIndices = np.lexsort((column(case, "row")[served], first[writer]))
    return np.take(served, order)


def _look_up(
    names: npt.NDArray[np.int64], at: RowIndices, wanted: npt.NDArray[np.int64]
) -> RowIndices:
    """For each wanted name its place in `at`, -1 if it is not there."""
    if not len(names):
        return np.full(len(wanted), -1, np.intp)
    # Names 7 3 5 at 20 21 22: wanted 5 4 give 22 -1. The next name from 4 on is 5, so 4 has none.
    order = np.argsort(names, kind="stable")
    place = np.minimum(np.searchsorted(names[order], wanted), len(names) - 1)
    found = order[place]
    return np.where(names[found] == wanted, at[found], -1)
