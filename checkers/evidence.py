"""The numbers that every report shows, measured in one run: how long, how often, how close.

Nothing here decides anything: a property is judged by its checker, from single rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.checkers import served
from holdfast.checkers.coverage import AIMED_AT_CLIENTS, servers_struck
from holdfast.checkers.distribution import dist
from holdfast.checkers.ended import certain_end
from holdfast.checkers.exercise import contended
from holdfast.checkers.formulas import lease_margin, utilisation
from holdfast.checkers.holds import INF, Attempt, attempts, by_id, by_lock
from holdfast.checkers.stale_belief import stale_beliefs
from holdfast.checkers.token_log import token_log
from holdfast.harness.case import Case
from holdfast.harness.clock import SECOND
from holdfast.harness.events import Op, Status

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


def evidence(case: Case) -> dict[str, object]:
    """All numbers of a run, JSON-ready: spans and times in ns, None where a run has none.

    O(n log n) in the rows.
    """
    waited = _waited(case)
    holds = [a.certain for a in attempts(case) if a.certain is not None and a.certain[1] < INF]
    hold_ns = dist([to_ns - from_ns for from_ns, to_ns in holds])
    acquire = _acquire(case)
    asked, granted = acquire["asked"], acquire["granted"]
    return {
        "acquire": acquire,
        "grants": _grants(case),
        "latency_ns": _latency(case),
        "wait_ns": dist([a.ret_ns - a.inv_ns for a in waited if a.status is Status.OK]),
        "hold_ns": hold_ns,
        "renewal_margin_ns": dist(_renewal_margins(case)),
        "queue_depth": _queue_depth(case, waited),
        "timeouts": _timeouts(case),
        "retry_rate": round(asked / granted, 3) if granted else None,
        "tokens": token_log(case),
        "rejected": _rejected(case),
        "expired_owner": _expired_owner(case),
        "failovers": _failovers(case),
        "lease_margin": _lease_margin(case, hold_ns["p99"]),
        "utilisation": _utilisation(case, hold_ns["mean"]),
        "stale_beliefs": _stale_beliefs(case),
    }


def _acquire(case: Case) -> dict[str, int]:
    statuses = [a.status for a in attempts(case) if a.op != Op.PROBE]
    unknown = sum(s in (Status.INFO, Status.INVOKED) for s in statuses)
    granted = statuses.count(Status.OK)
    return {
        "asked": len(statuses),
        "granted": granted,
        "refused": len(statuses) - granted - unknown,
        "unknown": unknown,
    }


def _grants(case: Case) -> dict[str, list[int]]:
    """How many grants were answered when, in GRANT_BINS equal bins from start to end."""
    asked = (a for a in attempts(case) if a.op != Op.PROBE)
    answered = [a.ret_ns for a in asked if a.status is Status.OK]
    span_ns = max(case.end_ns - case.start_ns, GRANT_BINS)
    edges = case.start_ns + np.arange(GRANT_BINS + 1, dtype=np.int64) * span_ns // GRANT_BINS
    counts, _ = np.histogram(np.array(answered, np.int64), edges)
    return {"edges_ns": edges.tolist(), "counts": counts.tolist()}


def _latency(case: Case) -> dict[str, object]:
    """How long the calls took that were answered ok, by op."""
    rows = case.history.rows
    answered: dict[str, object] = {}
    for op in CALLS:
        of_op = rows[case.history.of(op)]
        done = of_op[of_op["status"] == Status.OK]
        if len(done) and not (op is Op.HEARTBEAT and (done["t_ret"] == done["t_inv"]).all()):
            answered[op.name.lower()] = dist(done["t_ret"] - done["t_inv"])
    return answered


def _waited(case: Case) -> list[Attempt]:
    """Acquires that met a held lock, tries apart: those do not wait."""
    waited = []
    for group in by_lock(case).values():
        plain = [a for a in group if a.op == Op.ACQUIRE]
        waited += [a for a, met in zip(plain, contended(plain), strict=True) if met]
    return waited


def _renewal_margins(case: Case) -> list[int]:
    """What was left of each lease when its renewal was acknowledged; negative: it was too late."""
    rows = case.history.rows
    margins = []
    for a in attempts(case):
        if a.status is not Status.OK or a.ttl_ns <= 0:
            continue
        begun_ns = int(rows["t_inv"][a.waitings[-1]]) if a.waitings else a.inv_ns
        over_ns = begun_ns + a.ttl_ns
        for row in a.renewals:
            renewal = rows[row]
            if renewal["status"] == Status.OK:
                margins.append(over_ns - int(renewal["t_ret"]))
                over_ns = int(renewal["t_inv"]) + int(renewal["res"])
    return margins


def _queue_depth(case: Case, waited: Sequence[Attempt]) -> dict[str, float | None]:
    """Waiting acquires per lock: the mean over the run's time and locks, and the most at once."""
    span_ns = case.end_ns - case.start_ns
    if span_ns <= 0 or not by_lock(case):
        return {"mean": None, "max": None}
    most, total_ns = 0, 0
    for key in by_lock(case):
        mine = [a for a in waited if a.key == key]
        begun = np.sort(np.array([a.inv_ns for a in mine], np.int64))
        over = np.sort(np.array([min(a.ret_ns, case.end_ns) for a in mine], np.int64))
        depth = np.arange(1, len(mine) + 1) - np.searchsorted(over, begun, "right")
        most = max(most, int(depth.max(initial=0)))
        total_ns += int(over.sum() - begun.sum())
    return {"mean": round(total_ns / span_ns / len(by_lock(case)), 3), "max": most}


def _timeouts(case: Case) -> int:
    """Requests to the lock service whose time was over before they had what they asked for."""
    count = 0
    for a in attempts(case):
        waited_out = 0 < a.wait_ns <= a.ret_ns - a.inv_ns
        refused = a.status is Status.FAIL and waited_out
        count += refused or a.status in (Status.INFO, Status.INVOKED)
    rows = case.history.rows[case.history.of(Op.RENEW, Op.RELEASE)]
    return count + int(np.isin(rows["status"], (Status.INFO, Status.INVOKED)).sum())


def _rejected(case: Case) -> dict[str, object]:
    rows = case.history.rows
    log = served.log(case).rows
    refused = log[rows["status"][log] == Status.FAIL]
    shown = []
    for row in rows[refused[:SHOWN_REFUSALS]]:
        highest = row["aux"] if row["f"] == Op.SERVED_WRITE else row["arg"]
        shown.append(
            {
                "t_ns": int(row["t_inv"]),
                "lock": case.history.strings[int(row["key"])],
                "process": int(row["process"]),
                "token": int(row["token"]),
                "highest": int(highest),
            }
        )
    return {"total": len(refused), "stale": len(served.stale_refused(case)), "log": shown}


def _expired_owner(case: Case) -> dict[str, object]:
    """What became of writes that came after their owner's hold had certainly ended."""
    refused = accepted = 0
    for request in served.requests(case):
        attempt = by_id(case).get(request.attempt)
        end = certain_end(case, attempt) if request.write and attempt is not None else None
        if end is not None and request.from_ns > end.t_ns + case.error_ns:
            accepted += request.accepted
            refused += not request.accepted
    sent = refused + accepted
    if not sent:
        sentence = "no write came from an owner whose hold had certainly ended"
    elif not accepted:
        sentence = f"of {sent} writes by owners whose hold had ended the resource accepted none"
    else:
        sentence = f"of {sent} writes by owners whose hold had ended {accepted} were accepted"
    return {"sent": sent, "refused": refused, "accepted": accepted, "sentence": sentence}


def _failovers(case: Case) -> list[dict[str, object]]:
    """For each fault that bit on servers the time until the next grant."""
    grants = np.sort(
        np.array([a.ret_ns for a in attempts(case) if a.status is Status.OK], np.int64)
    )
    found: list[dict[str, object]] = []
    for window in case.windows:
        struck = servers_struck(case, window)
        if not window.bit or not struck or window.target in AIMED_AT_CLIENTS:
            continue
        at = int(np.searchsorted(grants, window.from_ns, "right"))
        gap_ns = int(grants[at]) - window.from_ns if at < len(grants) else None
        found.append(
            {
                "fault": window.id,
                "kind": window.do,
                "nodes": struck,
                "t_ns": window.from_ns,
                "gap_ns": gap_ns,
            }
        )
    return found


def _lease_margin(case: Case, hold_p99_ns: object) -> dict[str, object]:
    """The terms of `formulas.lease_margin` as this run measured them."""
    terms = ("renewal_interval_ns", "clock_uncertainty_ns", "network_ns", "pause_ns", "margin_ns")
    if case.promises.bound not in ("lease", "session"):
        note = "no lease bounds a hold"
        return {"lease_ns": None, **dict.fromkeys(terms), "note": note}
    intervals, trips = _renewals(case)
    notes = []
    if len(intervals):
        renewal_ns = int(np.median(intervals))
    else:
        renewal_ns = hold_p99_ns if isinstance(hold_p99_ns, int) else 0
        notes.append("nobody renewed twice, so the 99th percentile of the holds stands for T_r")
    network_ns = int(np.percentile(trips, 99)) if len(trips) else 0
    drift_ns = case.lease_ns * case.promises.drift_ppm // 1_000_000
    error_ns = case.error_ns + case.promises.slip_ns + drift_ns
    clients = set(case.nodes.values())
    pauses = [
        window.to_ns - window.from_ns
        for window in case.windows
        if window.do == "pause" and window.bit and clients.intersection(window.nodes)
    ]
    pause_ns = max(pauses, default=0)
    margin_ns = lease_margin(case.lease_ns, renewal_ns, error_ns, network_ns, pause_ns)
    if pause_ns > case.lease_ns:
        notes.append("the longest pause of a client was longer than the lease")
    values = (renewal_ns, error_ns, network_ns, pause_ns, int(margin_ns))
    return {
        "lease_ns": case.lease_ns,
        **dict(zip(terms, values, strict=True)),
        "note": "; ".join(notes),
    }


def _renewals(case: Case) -> tuple[Sequence[int], Sequence[int]]:
    """Between ok renewals of one attempt; and from the sending of each to its answer."""
    rows = case.history.rows[case.history.of(Op.RENEW)]
    ok = rows[rows["status"] == Status.OK]
    ok = ok[np.argsort(ok["attempt"], kind="stable")]
    same = ok["attempt"][1:] == ok["attempt"][:-1]
    intervals = (ok["t_inv"][1:] - ok["t_inv"][:-1])[same]
    return intervals.tolist(), (ok["t_ret"] - ok["t_inv"]).tolist()


def _utilisation(case: Case, hold_mean_ns: object) -> dict[str, float | None]:
    """Load per lock. A refused try is no load: it went away at once."""
    offered = sum(
        a.op == Op.ACQUIRE or (a.op == Op.TRY and a.status is Status.OK) for a in attempts(case)
    )
    span_ns = case.stop_ns - case.start_ns
    if span_ns <= 0 or not isinstance(hold_mean_ns, int) or not offered:
        return {"arrivals_per_s": None, "hold_mean_ns": None, "rho": None}
    rate = offered / (span_ns / SECOND) / len(by_lock(case))
    return {
        "arrivals_per_s": round(rate, 3),
        "hold_mean_ns": hold_mean_ns,
        "rho": round(utilisation(rate, hold_mean_ns / SECOND), 4),
    }


def _stale_beliefs(case: Case) -> dict[str, int | None]:
    beliefs = stale_beliefs(case)
    return {
        "count": len({belief.older.id for belief in beliefs}),
        "longest_ns": max((belief.ns for belief in beliefs), default=None),
    }
