"""Renewals of a lost lock that was free again, by an owner that a fault had stopped or cut off.

A service or client that renews whatever is free takes the lock again there, without a word about
the owner in between.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.checkers.facts.lost_holds import first_lease_end
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.history_index import Indices, column, rows_of
from holdfast.checkers.holds.overlaps import slack
from holdfast.checkers.holds.statements import believed
from holdfast.checkers.holds.succession import succession_of
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Seen


def regained(case: Case, windows: Sequence[Window]) -> Seen:
    """First renewals after a loss that were answered while no other client can have held the lock.

    A run without one stages nothing: it is judged by what else it shows of notices.
    """
    leased = case.promises.bound == "lease" or case.promises.lapses
    met = list(_answered(case, windows)) if leased else []
    if not met:
        return Seen(staged=False, nearest="no owner renewed a lost lock that was free again")
    roles, fault = met[0]
    return Seen(count=len(met), roles=roles, fault=fault)


def _answered(case: Case, windows: Sequence[Window]) -> list[tuple[dict[str, int], str]]:
    """The roles and the fault of each, by time. Columns select the owners that had been overtaken
    when their last renewal was sent; the renewals of those are looked at one by one."""
    every, (inv, ret) = table(case), (column(case, name) for name in ("t_inv", "t_ret"))
    status, rows = column(case, "status"), rows_of(case, Op.RENEW)
    rows = rows[np.isin(status[rows], (Status.OK, Status.NOT_OWNER))]
    entry = every.of_rows(rows)
    rows, entry = rows[entry >= 0], entry[entry >= 0]
    last_ns = np.full(len(every), -1)
    np.maximum.at(last_ns, entry, inv[rows])
    found: list[tuple[dict[str, int], str]] = []
    for key, entries in every.by_lock().items():
        if believed(case, key).renew_proves:
            continue
        succession = succession_of(case, key)
        owners = entries[every.ok[entries] & (last_ns[entries] >= 0)]
        owners = owners[succession.overtaken(owners, last_ns[owners])]
        for place, a in zip(owners.tolist(), every.pick(owners), strict=True):
            for row in rows[entry == place].tolist():
                other = succession.first(a, int(inv[row]))
                away = _away(case, a, int(inv[row]), windows)
                if a.path or a.end_ns < inv[row] or other is None or away is None:
                    continue
                if _free(case, entries[entries != place], int(inv[row]), int(ret[row])):
                    found.append(({"hold": a.row, "other": other.row, "renewal": row}, away.id))
                    break
    return sorted(found, key=lambda one: int(inv[one[0]["renewal"]]))


def _away(case: Case, a: Attempt, t_ns: int, windows: Sequence[Window]) -> Window | None:
    """The last fault of a node that was over by t_ns, of an owner whose first lease was over."""
    if first_lease_end(case, a) + slack(case) >= t_ns:
        return None
    struck = [w for w in windows if a.node in w.nodes and a.inv_ns < w.to_ns <= t_ns]
    return struck[-1] if struck else None


def _free(case: Case, entries: Indices, from_ns: int, to_ns: int) -> bool:
    """Whether none of these can have held the lock at any moment of a span."""
    every, slack_ns = table(case), slack(case)
    rest = entries[every.over[entries] >= 0]
    held = (every.inv[rest] <= to_ns + slack_ns) & (every.over[rest] >= from_ns - slack_ns)
    return not bool(held.any())
