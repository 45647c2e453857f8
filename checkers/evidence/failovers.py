"""Failovers: faults that took effect on the leader, and when grants returned after each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.checkers.facts.fault_windows import AIMED_AT_CLIENTS, servers_struck
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import column, rows_of
from holdfast.harness.core.case import Case, Election, Window
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.verdicts.evidence import (
    Failover,
)


def failovers(case: Case) -> tuple[Failover, ...]:
    """Faults that took effect on the leader, or on servers of which the leader is unknown."""
    attempts, status = table(case), column(case, "status")
    grants = np.sort(attempts.ret[attempts.ok])
    calls = rows_of(case, Op.ACQUIRE, Op.TRY, Op.PROBE, Op.RENEW, Op.RELEASE)
    calls = calls[status[calls] == Status.OK]
    sent, back = column(case, "t_inv")[calls], column(case, "t_ret")[calls]
    soonest = np.minimum.accumulate(back[::-1])[::-1]
    led = [window for window in case.windows if _leader(window)]
    told: list[Failover] = []
    for window in case.windows:
        struck = servers_struck(case, window)
        aimed = window.target in AIMED_AT_CLIENTS or window.target == "follower"
        if not window.effective or not struck or aimed:
            continue
        at = int(np.searchsorted(grants, window.from_ns, "right"))
        after = int(np.searchsorted(sent, window.from_ns, "right"))
        gap_ns = int(grants[at]) - window.from_ns if at < len(grants) else None
        before, then = _led(case, window, led, None if gap_ns is None else window.from_ns + gap_ns)
        told.append(
            Failover(
                fault=window.id,
                kind=window.do,
                nodes=tuple(struck),
                t_ns=window.from_ns,
                leader_before=before.leader or None,
                leader_after=then.leader or None,
                term=before.term,
                term_after=then.term,
                back_ns=int(soonest[after]) - window.from_ns if after < len(sent) else None,
                gap_ns=gap_ns,
            )
        )
    return tuple(told)


def _led(
    case: Case, window: Window, led: Sequence[Window], granted_ns: int | None
) -> tuple[Election, Election]:
    """Who led as a fault began and afterwards, "" if unknown.

    led, granted_ns   the faults whose leader is known; the first grant after the fault's beginning
    """
    before = Election(t_ns=window.from_ns, leader=_leader(window) or "", term=window.term)
    nobody = Election(t_ns=window.from_ns, leader="")
    if not case.elections:
        later = (other for other in led if other.from_ns > window.from_ns)
        at = next(later, None)
        then = at and Election(t_ns=at.from_ns, leader=_leader(at) or "", term=at.term)
        return before, then or nobody

    def leader_at(t_ns: int) -> Election:
        """A leader of an earlier term may not know of its successor yet, never the reverse."""
        begun = [one for one in case.elections if one.t_ns <= t_ns]
        return max(begun, key=lambda one: one.term or 0, default=nobody)

    if not before.leader:
        before = leader_at(window.earliest_ns)
    return before, nobody if granted_ns is None else leader_at(granted_ns)


def _leader(window: Window) -> str | None:
    """Who led when a fault began; runs of earlier versions only recorded faults aimed at it."""
    aimed = str(window.nodes[0]) if window.target == "leader" and window.nodes else None
    return window.leader or aimed
