"""The first response of the servers after a time: from then on they are up, or others decide."""

from __future__ import annotations

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import column, rows_of
from holdfast.checkers.holds.leases import INF
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status


def first_response(case: Case, after_ns: int) -> int:
    """The earliest return of a successful call, or acknowledgement of an acquire, that was sent
    after a time, INF if none."""
    if "responses" not in case.memo:
        rows = rows_of(case, Op.ACQUIRE, Op.TRY, Op.RENEW, Op.RELEASE)
        rows = rows[column(case, "status")[rows] == Status.OK]
        attempts = table(case)
        acknowledged = attempts.queued >= 0
        sent = np.concatenate((column(case, "t_inv")[rows], attempts.inv[acknowledged]))
        back = np.concatenate((column(case, "t_ret")[rows], attempts.queued[acknowledged]))
        order = np.argsort(sent, kind="stable")
        # Sent at 1 4 6, returned at 9 5 8: of those sent after 3 the earliest returns at 5, which
        # is the minimum from the second on, 5 5 8.
        soonest = np.minimum.accumulate(back[order][::-1])[::-1]
        case.memo["responses"] = sent[order], soonest
    sent, soonest = case.memo["responses"]
    place = int(np.searchsorted(sent, after_ns, "right"))
    return int(soonest[place]) if place < len(sent) else INF
