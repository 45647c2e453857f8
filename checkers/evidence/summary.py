"""The measurements of one run that every report shows: durations, counts, margins.

No verdict depends on them: a property is judged by its checker, from single rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.checkers.coverage.offered_load import pace, planned
from holdfast.checkers.coverage.requirements import contended
from holdfast.checkers.evidence.availability import availability, partitions, waits
from holdfast.checkers.evidence.formulas import lease_margin, utilisation
from holdfast.checkers.evidence.serializability import serialisability
from holdfast.checkers.evidence.token_log import token_log
from holdfast.checkers.facts import admissions
from holdfast.checkers.facts.distribution import dist
from holdfast.checkers.facts.fault_windows import AIMED_AT_CLIENTS, servers_struck
from holdfast.checkers.facts.late_writes import late_writes
from holdfast.checkers.facts.latency_breakdown import acquire_split
from holdfast.checkers.facts.stale_belief import stale_beliefs
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import Bools, Ints, column, rows_of, took
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.holds.overlaps import reaches
from holdfast.harness.core.case import Case, Election, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Mode, Op, Status
from holdfast.harness.core.statistics import clopper_pearson
from holdfast.harness.history.call_errors import call_errors
from holdfast.harness.verdicts.evidence import (
    Asked,
    Depth,
    Dist,
    Evidence,
    ExpiredOwner,
    Failover,
    Histogram,
    LeaseMargin,
    Refusal,
    Rejected,
    StaleBeliefs,
    Utilisation,
)

CALLS = (
    Op.ACQUIRE,
    Op.TRY,
    Op.PROBE,
    Op.RENEW,
    Op.RELEASE,
    Op.HEARTBEAT,
    Op.READ,
    Op.WRITE,
)
SHOWN_REFUSALS = 50
GRANT_BINS = 120


def evidence(case: Case) -> Evidence:
    """All numbers of a run. O(n log n) in the rows."""
    found = table(case)
    waited = contended(case, found.op == Op.ACQUIRE)
    # Holds of the workload: a probe, or a grant after the end of the workload, is released at once
    # and its duration means nothing.
    worked = (found.op != Op.PROBE) & (found.ret < case.stop_ns)
    closed = found.certain & (found.end < INF) & worked
    hold_ns = dist((found.end - found.ret)[closed])
    answered = waited & found.ok
    acquire = _acquire(case)
    return Evidence(
        acquire=acquire,
        acquire_split=acquire_split(case),
        pace=pace(case),
        grants=_grants(case),
        latency_ns=_latency(case),
        wait_ns=dist((found.ret - found.inv)[answered]),
        hold_ns=hold_ns,
        renewal_margin_ns=dist(renewal_margins(case)[1]),
        queue_depth=_queue_depth(case, waited),
        timeouts=_timeouts(case),
        retry_rate=round(acquire.asked / acquire.granted, 3) if acquire.granted else None,
        tokens=token_log(case),
        rejected=_rejected(case),
        expired_owner=_expired_owner(case),
        serialisability=serialisability(case),
        failovers=_failovers(case),
        lease_margin=_lease_margin(case, hold_ns.p99),
        utilisation=_utilisation(case, dist(_served_ns(case)[closed]).mean),
        stale_beliefs=_stale_beliefs(case),
        availability=availability(case),
        partitions=partitions(case),
        waits=waits(case),
        errors=tuple(call_errors(case.history)),
    )


def _acquire(case: Case) -> Asked:
    found = table(case)
    asked = found.op != Op.PROBE
    granted, unknown = int((asked & found.ok).sum()), int((asked & found.unknown).sum())
    n = int(asked.sum())
    refused = n - granted - unknown
    return Asked(asked=n, granted=granted, refused=refused, unknown=unknown)


def _grants(case: Case) -> Histogram:
    """Number of grants that returned, in GRANT_BINS equal bins from start to end."""
    found = table(case)
    answered = found.ret[found.ok & (found.op != Op.PROBE)]
    span_ns = max(case.end_ns - case.start_ns, GRANT_BINS)
    # Whole bins first: 120 times the span of a damaged run (73 years) would overflow 64 bits.
    whole_ns, rest_ns = divmod(span_ns, GRANT_BINS)
    at = np.arange(GRANT_BINS + 1, dtype=np.int64)
    edges = case.start_ns + at * whole_ns + at * rest_ns // GRANT_BINS
    counts, _ = np.histogram(answered, edges)
    return Histogram(edges_ns=tuple(edges.tolist()), counts=tuple(counts.tolist()))


def _latency(case: Case) -> dict[str, Dist]:
    """Latency of the calls that returned ok, by op; those of the probe's attempts by themselves."""
    lasted, status = took(case), column(case, "status")
    attempt = column(case, "attempt")
    probing = np.isin(attempt, attempt[rows_of(case, Op.PROBE)])
    answered: dict[str, Dist] = {}
    probed: dict[str, Dist] = {}
    for op in CALLS:
        of_op = rows_of(case, op)
        done = of_op[status[of_op] == Status.OK]
        if op is Op.HEARTBEAT and not lasted[done].any():
            continue
        name, mine = op.name.lower(), probing[done]
        if not mine.all():
            answered[name] = dist(lasted[done[~mine]])
        if mine.any():
            probed[name if op is Op.PROBE else f"probe_{name}"] = dist(lasted[done[mine]])
    return answered | probed


def renewal_margins(case: Case) -> tuple[Ints, Ints]:
    """Rows of the acknowledged renewals, and the time left of each lease; negative: too late."""
    found = table(case)
    rows = rows_of(case, Op.RENEW)
    entry = found.of_rows(rows)
    told = (column(case, "status")[rows] == Status.OK) & (entry >= 0)
    told[told] = (found.ok & (found.ttl > 0))[entry[told]]
    rows, entry = rows[told], entry[told]
    order = np.argsort(entry, kind="stable")
    rows, entry = rows[order], entry[order]
    over = column(case, "t_inv")[rows] + column(case, "res")[rows]
    before = np.roll(over, 1)
    first = np.diff(entry, prepend=-1) != 0
    begun = np.where(_waited(case), found.ret, found.inv) + found.ttl
    before[first] = begun[entry[first]]
    return np.asarray(rows), np.asarray(before - column(case, "t_ret")[rows])


def _waited(case: Case) -> Bools:
    """Grants that were not made when they were called for. Their row has what was left of the lease
    as the grant returned: the client, or the service, subtracts what passed on the way.

    c1 calls at 0 s, receives "wait" at 1 s; then it is cut off, and receives the grant at 3 s with
    1 s of lease. Neither its call nor the last response that it waits begins this lease: a client
    that renews at 3 s has 1 s left, not -1 s.
    """
    found, far = table(case), reaches(case)
    waited = found.queued >= 0
    for entries in found.by_lock().values():
        mine = entries[found.ok[entries] & (found.mode[entries] == Mode.EXCLUSIVE)]
        mine = mine[np.argsort(found.ret[mine], kind="stable")]
        waited[mine[1:]] |= np.maximum.accumulate(far[mine])[:-1] > found.inv[mine[1:]]
    return np.asarray(waited)


def _queue_depth(case: Case, waited: Bools) -> Depth:
    """Waiting acquires per lock: the mean over the run's time and locks, and the maximum."""
    span_ns = case.end_ns - case.start_ns
    found = table(case)
    if span_ns <= 0 or not found.by_family():
        return Depth()
    most, total_ns = 0, 0
    for entries in found.by_family().values():
        mine = entries[waited[entries]]
        begun = np.sort(found.inv[mine])
        over = np.sort(np.minimum(found.ret[mine], case.end_ns))
        depth = np.arange(1, len(mine) + 1) - np.searchsorted(over, begun, "right")
        most = max(most, int(depth.max(initial=0)))
        total_ns += int((over - begun).sum())
    return Depth(mean=round(total_ns / span_ns / len(found.by_family()), 3), max=most)


def _timeouts(case: Case) -> int:
    """Acquires rejected after their whole wait, and lock requests of unknown outcome."""
    found = table(case)
    waited_out = (found.wait > 0) & (found.wait <= took(case)[found.row])
    refused = (found.status == Status.FAIL) & waited_out
    status = column(case, "status")[rows_of(case, Op.RENEW, Op.RELEASE)]
    unknown = (status == Status.INFO) | (status == Status.INVOKED)
    return int((refused | found.unknown).sum()) + int(unknown.sum())


def _rejected(case: Case) -> Rejected:
    rows = case.history.rows
    refused = admissions.rejected(case)
    shown = []
    for row in rows[refused[:SHOWN_REFUSALS]]:
        highest = row["aux"] if row["f"] == Op.SERVED_WRITE else row["arg"]
        shown.append(
            Refusal(
                t_ns=int(row["t_inv"]),
                lock=case.history.strings[int(row["key"])],
                process=int(row["process"]),
                token=int(row["token"]),
                highest=int(highest),
            )
        )
    stale = len(admissions.stale_refused(case))
    return Rejected(total=len(refused), stale=stale, log=tuple(shown))


def _expired_owner(case: Case) -> ExpiredOwner:
    late = late_writes(case)
    accepted = sum(request.accepted for request, _, _ in late)
    refused = len(late) - accepted
    sent = refused + accepted
    if not sent:
        sentence = "no write came from an owner whose hold had certainly ended"
    elif not accepted:
        sentence = f"the resource accepted none of {sent} writes by expired owners"
    else:
        sentence = f"the resource accepted {accepted} of {sent} writes by expired owners"
    low, high = clopper_pearson(accepted, sent)
    return ExpiredOwner(
        sent=sent,
        refused=refused,
        accepted=accepted,
        rate=round(accepted / sent, 6) if sent else None,
        rate_low=round(low, 6),
        rate_high=round(high, 6),
        sentence=sentence,
    )


def _failovers(case: Case) -> tuple[Failover, ...]:
    """Faults that took effect on the leader, or on servers of which the leader is unknown."""
    found, status = table(case), column(case, "status")
    grants = np.sort(found.ret[found.ok])
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


def _lease_margin(case: Case, hold_p99_ns: float | None) -> LeaseMargin:
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


def _served_ns(case: Case) -> Ints:
    """How long each hold kept its lock from others: until its end, or the next grant of the lock.

    A paused owner believes that it holds long after its lease expired and others were granted.
    """
    found = table(case)
    until = found.end.copy()
    for entries in found.by_family().values():
        mine = entries[found.ok[entries] & (found.mode[entries] == Mode.EXCLUSIVE)]
        mine = mine[np.argsort(found.ret[mine], kind="stable")]
        until[mine[:-1]] = np.minimum(until[mine[:-1]], found.ret[mine[1:]])
    return np.asarray(until - found.ret)


def _utilisation(case: Case, hold_mean_ns: float | None) -> Utilisation:
    """Load per lock. A rejected try is no load: it ends at once. With a planned rate each try is an
    arrival, which comes whether or not the lock is free, and so is one that could not be sent."""
    found = table(case)
    asked = (found.op == Op.ACQUIRE) | ((found.op == Op.TRY) & found.ok)
    offered = planned(case) or int((asked & (found.inv < case.stop_ns)).sum())
    span_ns = case.stop_ns - case.start_ns
    if span_ns <= 0 or hold_mean_ns is None or not offered:
        return Utilisation()
    rate = offered / (span_ns / SECOND) / len(found.by_family())
    return Utilisation(
        arrivals_per_s=round(rate, 3),
        hold_mean_ns=hold_mean_ns,
        rho=round(utilisation(rate, hold_mean_ns / SECOND), 4),
    )


def _stale_beliefs(case: Case) -> StaleBeliefs:
    beliefs = stale_beliefs(case)
    return StaleBeliefs(
        count=len({belief.older.id for belief in beliefs}),
        longest_ns=max((belief.ns for belief in beliefs), default=None),
    )
