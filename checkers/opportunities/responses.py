"""The first response of the servers after a time: from then on they are up, or others decide."""

from __future__ import annotations

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import Ints, column
from holdfast.checkers.holds.leases import INF
from holdfast.harness.core.case import Case, among, memoised
from holdfast.harness.core.operations import Op, Status

CALLS = frozenset((Op.ACQUIRE, Op.TRY, Op.RENEW, Op.RELEASE))
FIRST_ROWS = 64


def first_response(case: Case, after_ns: int) -> int:
    """The earliest return of a successful call, or acknowledgement of an acquire, that was sent
    after a time, INF if none."""
    memo: dict[int, int] = case.memo.setdefault("first responses", {})
    if after_ns not in memo:
        sent, soonest = _acknowledged(case)
        place = int(np.searchsorted(sent, after_ns, "right"))
        best = int(soonest[place]) if place < len(sent) else INF
        memo[after_ns] = min(best, _first_return(case, after_ns, best))
    return memo[after_ns]


def _first_return(case: Case, after_ns: int, by_ns: int) -> int:
    """The earliest return of a successful call that was sent after a time, by_ns at the latest.

    Strokes are few and histories long: mostly a few rows after the stroke are looked at, which are
    in order of their calls.
    """
    inv, ret = column(case, "t_inv"), column(case, "t_ret")
    at, step = int(np.searchsorted(inv, after_ns, "right")), FIRST_ROWS
    # What is sent later than the earliest return so far cannot have returned before it.
    while at < len(inv) and inv[at] < by_ns:
        rows = slice(at, at + step)
        done = among(column(case, "f")[rows], CALLS) & (column(case, "status")[rows] == Status.OK)
        by_ns = int(ret[rows][done].min(initial=by_ns))
        at, step = at + step, 2 * step
    return by_ns


@memoised
def _acknowledged(case: Case) -> tuple[Ints, Ints]:
    """When the acknowledged acquires were sent, in order, and the earliest acknowledgement of that
    one and of those after it. Memoised."""
    attempts = table(case)
    entries = np.flatnonzero(attempts.queued >= 0)
    entries = entries[np.argsort(attempts.inv[entries], kind="stable")]
    # Sent at 1 4 6, acknowledged at 9 5 8: of those sent after 3 the earliest is at 5, which is the
    # minimum from the second on, 5 5 8.
    soonest = np.minimum.accumulate(attempts.queued[entries][::-1])[::-1]
    return attempts.inv[entries], soonest
