"""Renewals: how much of each lease was left, and the margin that the run's own numbers leave."""

from __future__ import annotations

import numpy as np

from holdfast.checkers.evidence.formulas import lease_margin
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import Bools, Ints, column, rows_of, took
from holdfast.checkers.holds.overlaps import reaches
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Mode, Op, Status
from holdfast.harness.verdicts.evidence import (
    LeaseMargin,
)


def renewal_margins(case: Case) -> tuple[Ints, Ints]:
    """Rows of the acknowledged renewals, and the time left of each lease; negative: too late."""
    attempts = table(case)
    rows = rows_of(case, Op.RENEW)
    entry = attempts.of_rows(rows)
    told = (column(case, "status")[rows] == Status.OK) & (entry >= 0)
    told[told] = (attempts.ok & (attempts.ttl > 0))[entry[told]]
    rows, entry = rows[told], entry[told]
    order = np.argsort(entry, kind="stable")
    rows, entry = rows[order], entry[order]
    over = column(case, "t_inv")[rows] + column(case, "res")[rows]
    before = np.roll(over, 1)
    first = np.diff(entry, prepend=-1) != 0
    begun = np.where(_waited(case), attempts.ret, attempts.inv) + attempts.ttl
    before[first] = begun[entry[first]]
    return np.asarray(rows), np.asarray(before - column(case, "t_ret")[rows])


def _waited(case: Case) -> Bools:
    """Grants that were not made when they were called for. Their row has what was left of the lease
    as the grant returned: the client, or the service, subtracts what passed on the way.

    c1 calls at 0 s, receives "wait" at 1 s; then it is cut off, and receives the grant at 3 s with
    1 s of lease. Neither its call nor the last response that it waits begins this lease: a client
    that renews at 3 s has 1 s left, not -1 s.
    """
    attempts, far = table(case), reaches(case)
    waited = attempts.queued >= 0
    for entries in attempts.by_lock().values():
        mine = entries[attempts.ok[entries] & (attempts.mode[entries] == Mode.EXCLUSIVE)]
        mine = mine[np.argsort(attempts.ret[mine], kind="stable")]
        waited[mine[1:]] |= np.maximum.accumulate(far[mine])[:-1] > attempts.inv[mine[1:]]
    return np.asarray(waited)


def margin_of_leases(case: Case, hold_p99_ns: float | None) -> LeaseMargin:
    """The terms of `formulas.lease_margin` as this run measured them."""
    if case.promises.bound not in ("lease", "session"):
        return LeaseMargin(note="no lease bounds a hold")
    intervals, trips = _renewals(case)
    notes = []
    if len(intervals):
        renewal_ns = int(np.median(intervals))
    else:
        renewal_ns = int(hold_p99_ns or 0)
        notes.append("no client renewed twice, so T_r is the 99th percentile of the holds")
    network_ns = int(np.percentile(trips, 99)) if len(trips) else 0
    drift_ns = case.lease_ns * case.promises.drift_ppm // 1_000_000
    error_ns = case.error_ns + case.promises.slip_ns + drift_ns
    clients = set(case.nodes.values())
    pauses = [
        window.to_ns - window.from_ns
        for window in case.windows
        if window.traits.stops and window.effective and clients.intersection(window.nodes)
    ]
    pause_ns = max(pauses, default=0)
    margin_ns = lease_margin(case.lease_ns, renewal_ns, error_ns, network_ns, pause_ns)
    if pause_ns > case.lease_ns:
        notes.append("the longest pause of a client was longer than the lease")
    return LeaseMargin(
        lease_ns=case.lease_ns,
        renewal_interval_ns=renewal_ns,
        clock_uncertainty_ns=error_ns,
        network_ns=network_ns,
        pause_ns=pause_ns,
        margin_ns=int(margin_ns),
        note="; ".join(notes),
    )


def _renewals(case: Case) -> tuple[Ints, Ints]:
    """Intervals between ok renewals of one attempt; and the latency of each."""
    rows = rows_of(case, Op.RENEW)
    rows = rows[column(case, "status")[rows] == Status.OK]
    attempt = column(case, "attempt")[rows]
    rows = rows[np.argsort(attempt, kind="stable")]
    same = np.diff(column(case, "attempt")[rows]) == 0
    return np.diff(column(case, "t_inv")[rows])[same], took(case)[rows]
