"""Calls of a run by their outcome and their latency: granted, refused, unknown, timed out."""

from __future__ import annotations

import numpy as np

from holdfast.checkers.coverage.needs_of_waits import contended
from holdfast.checkers.facts.distribution import dist
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import Bools, column, rows_of, took
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.verdicts.evidence import (
    Asked,
    Depth,
    Dist,
    Histogram,
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


GRANT_BINS = 120


def acquires(case: Case) -> Asked:
    attempts = table(case)
    asked = attempts.op != Op.PROBE
    granted, unknown = int((asked & attempts.ok).sum()), int((asked & attempts.unknown).sum())
    n = int(asked.sum())
    refused = n - granted - unknown
    return Asked(asked=n, granted=granted, refused=refused, unknown=unknown)


def grants_in_bins(case: Case) -> Histogram:
    """Number of grants that returned, in GRANT_BINS equal bins from start to end."""
    attempts = table(case)
    answered = attempts.ret[attempts.ok & (attempts.op != Op.PROBE)]
    span_ns = max(case.end_ns - case.start_ns, GRANT_BINS)
    # Whole bins first: 120 times the span of a damaged run (73 years) would overflow 64 bits.
    whole_ns, rest_ns = divmod(span_ns, GRANT_BINS)
    at = np.arange(GRANT_BINS + 1, dtype=np.int64)
    edges = case.start_ns + at * whole_ns + at * rest_ns // GRANT_BINS
    counts, _ = np.histogram(answered, edges)
    return Histogram(edges_ns=tuple(edges.tolist()), counts=tuple(counts.tolist()))


def latencies(case: Case) -> dict[str, Dist]:
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


def timeouts(case: Case) -> int:
    """Acquires rejected after their whole wait, and lock requests of unknown outcome."""
    attempts = table(case)
    waited_out = (attempts.wait > 0) & (attempts.wait <= took(case)[attempts.row])
    refused = (attempts.status == Status.FAIL) & waited_out
    status = column(case, "status")[rows_of(case, Op.RENEW, Op.RELEASE)]
    unknown = (status == Status.INFO) | (status == Status.INVOKED)
    return int((refused | attempts.unknown).sum()) + int(unknown.sum())


def waiting(case: Case) -> tuple[Dist, Depth]:
    """How long the acquires waited that waited and were granted, and the queues of all that did."""
    attempts = table(case)
    waited = contended(case, attempts.op == Op.ACQUIRE)
    lasted = dist((attempts.ret - attempts.inv)[waited & attempts.ok])
    return lasted, _queue_depth(case, waited)


def _queue_depth(case: Case, waited: Bools) -> Depth:
    """Waiting acquires per lock: the mean over the run's time and locks, and the maximum."""
    span_ns = case.end_ns - case.start_ns
    attempts = table(case)
    if span_ns <= 0 or not attempts.by_family():
        return Depth()
    most, total_ns = 0, 0
    for entries in attempts.by_family().values():
        mine = entries[waited[entries]]
        begun = np.sort(attempts.inv[mine])
        over = np.sort(np.minimum(attempts.ret[mine], case.end_ns))
        depth = np.arange(1, len(mine) + 1) - np.searchsorted(over, begun, "right")
        most = max(most, int(depth.max(initial=0)))
        total_ns += int((over - begun).sum())
    return Depth(mean=round(total_ns / span_ns / len(attempts.by_family()), 3), max=most)
