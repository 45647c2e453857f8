"""Load of the locks: how long they were held, and how much of the time."""

from __future__ import annotations

import numpy as np

from holdfast.checkers.coverage.offered_load import planned
from holdfast.checkers.evidence.formulas import utilisation
from holdfast.checkers.facts.distribution import dist
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.history_index import Bools, Ints
from holdfast.checkers.holds.leases import INF
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Mode, Op
from holdfast.harness.verdicts.evidence import (
    Dist,
    Utilisation,
)


def closed_holds(case: Case) -> Bools:
    """Holds of the workload that certainly ended, by entry of the table.

    A probe, or a grant after the end of the workload, is released at once: its length means
    nothing.
    """
    attempts = table(case)
    worked = (attempts.op != Op.PROBE) & (attempts.ret < case.stop_ns)
    return np.asarray(attempts.certain & (attempts.end < INF) & worked)


def hold_times(case: Case, closed: Bools) -> Dist:
    """How long these holds lasted, from the return of the acquire."""
    attempts = table(case)
    return dist((attempts.end - attempts.ret)[closed])


def _served_ns(case: Case) -> Ints:
    """How long each hold kept its lock from others: until its end, or the next grant of the lock.

    A paused owner believes that it holds long after its lease expired and others were granted.
    """
    attempts = table(case)
    until = attempts.end.copy()
    for entries in attempts.by_family().values():
        mine = entries[attempts.ok[entries] & (attempts.mode[entries] == Mode.EXCLUSIVE)]
        mine = mine[np.argsort(attempts.ret[mine], kind="stable")]
        until[mine[:-1]] = np.minimum(until[mine[:-1]], attempts.ret[mine[1:]])
    return np.asarray(until - attempts.ret)


def load(case: Case, closed: Bools) -> Utilisation:
    """Load per lock, from the holds of the workload.

    A rejected try is no load: it ends at once. With a planned rate each try is an arrival, which
    comes whether or not the lock is free, and so is one that could not be sent.
    """
    hold_mean_ns = dist(_served_ns(case)[closed]).mean
    attempts = table(case)
    asked = (attempts.op == Op.ACQUIRE) | ((attempts.op == Op.TRY) & attempts.ok)
    offered = planned(case) or int((asked & (attempts.inv < case.stop_ns)).sum())
    span_ns = case.stop_ns - case.start_ns
    if span_ns <= 0 or hold_mean_ns is None or not offered:
        return Utilisation()
    rate = offered / (span_ns / SECOND) / len(attempts.by_family())
    return Utilisation(
        arrivals_per_s=round(rate, 3),
        hold_mean_ns=hold_mean_ns,
        rho=round(utilisation(rate, hold_mean_ns / SECOND), 4),
    )
