"""Renewals of a lost lock that was free again, by an owner that a fault had stopped or cut off.

A service or client that renews whatever is free takes the lock again there, without a word about
the owner in between.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import column, rows_of
from holdfast.checkers.holds.leases import longest
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
    met = [] if case.promises.bound != "lease" else list(_answered(case, windows))
    if not met:
        return Seen(staged=False, nearest="no owner renewed a lost lock that was free again")
    roles, fault = met[0]
    return Seen(count=len(met), roles=roles, fault=fault)


def _answered(case: Case, windows: Sequence[Window]) -> list[tuple[dict[str, int], str]]:
    every, slack_ns = table(case), slack(case)
    inv, ret, status = (column(case, name) for name in ("t_inv", "t_ret", "status"))
    rows = rows_of(case, Op.RENEW)
    rows = rows[np.isin(status[rows], (Status.OK, Status.NOT_OWNER))]
    entry = every.of_rows(rows)
    found: dict[int, tuple[dict[str, int], str]] = {}
    of_lock = {int(n): key for key, entries in every.by_lock().items() for n in entries}
    for row, place in zip(rows.tolist(), entry.tolist(), strict=True):
        if place < 0 or place in found or not every.ok[place]:
            continue
        a, key = every.pick([place])[0], of_lock[place]
        if a.path or believed(case, key).renew_proves or a.end_ns < inv[row]:
            continue
        other = succession_of(case, key).first(a, int(inv[row]))
        over_ns = a.ret_ns + longest(a.ttl_ns, case.promises)
        away = [w for w in windows if a.node in w.nodes and a.inv_ns < w.to_ns <= inv[row]]
        if other is None or over_ns + slack_ns >= inv[row] or not away:
            continue
        rest = every.by_lock()[key]
        rest = rest[(rest != place) & (every.over[rest] >= 0)]
        held = (every.inv[rest] <= ret[row] + slack_ns) & (every.over[rest] >= inv[row] - slack_ns)
        if not held.any():
            found[place] = {"hold": a.row, "other": other.row, "renewal": row}, away[-1].id
    return list(found.values())
