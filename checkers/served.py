"""The protected resource's own log, in its own order, matched with the requests of the clients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.harness.case import Case, Rows
from holdfast.harness.events import Op, Status

Indices = npt.NDArray[np.intp]
MODES_WITH_TOKENS = ("fenced", "strict")
"""Ways of a resource (`options["resource"]`) that refuse outdated tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """Every request that the resource decided, oldest first.

    rows      indices into the merged history, of SERVED_READ and SERVED_WRITE rows
    sent      for each of them the client's own READ or WRITE row, -1 where none was recorded
    unlogged  client rows that were answered ok although the log has no accepted request for them
    """

    rows: Indices
    sent: Indices
    unlogged: Indices


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


def requests(case: Case) -> Iterator[Request]:
    """The decided requests one by one, in the log's order. O(n)."""
    found = log(case)
    rows = case.history.rows[found.rows]
    writes = rows["f"] == Op.SERVED_WRITE
    columns = zip(
        found.rows.tolist(),
        found.sent.tolist(),
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


def stale_refused(case: Case) -> Indices:
    """Rows of requests that the resource refused because their token was outdated."""
    found = log(case)
    rows = case.history.rows[found.rows]
    highest = np.where(rows["f"] == Op.SERVED_WRITE, rows["aux"], rows["arg"])
    stale = (rows["status"] == Status.FAIL) & (rows["token"] < highest)
    return np.compress(stale, found.rows)


def _log(case: Case) -> Log:
    rows = case.history.rows
    served = _in_order(rows, case.history.of(Op.SERVED_READ, Op.SERVED_WRITE))
    decided = np.isin(rows["status"][served], (Status.OK, Status.FAIL))
    served = served[decided]
    asked = case.history.of(Op.READ, Op.WRITE)
    names = rows["process"][asked].astype(np.int64) << 32 | rows["row"][asked].astype(np.int64)
    wanted = rows["op"][served]
    accepted = wanted[rows["status"][served] == Status.OK]
    answered = rows["status"][asked] == Status.OK
    return Log(
        rows=served,
        sent=_look_up(names, asked, wanted),
        unlogged=asked[answered & ~np.isin(names, accepted)],
    )


def _in_order(rows: Rows, served: Indices) -> Indices:
    """By writer, in the order in which the resource's processes lived, then by row number."""
    writers, writer = np.unique(rows["writer"][served], return_inverse=True)
    first = np.full(len(writers), np.iinfo(np.int64).max)
    np.minimum.at(first, writer, rows["t_inv"][served])
    order: Indices = np.lexsort((rows["row"][served], first[writer]))
    return np.take(served, order)


def _look_up(names: npt.NDArray[np.int64], at: Indices, wanted: npt.NDArray[np.int64]) -> Indices:
    """For each wanted name where it stands in `at`, -1 where it does not."""
    if not len(names):
        return np.full(len(wanted), -1, np.intp)
    order = np.argsort(names, kind="stable")
    place = np.minimum(np.searchsorted(names[order], wanted), len(names) - 1)
    found = order[place]
    return np.where(names[found] == wanted, at[found], -1)
