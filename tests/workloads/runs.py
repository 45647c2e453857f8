"""Short simulated runs of workloads without faults, each run once for all tests of it."""

from __future__ import annotations

from functools import cache

import numpy as np

from holdfast.engine import seed_search
from holdfast.engine.seed_search import Ran
from holdfast.harness.core.case import History, Rows
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.plans.plan import parse
from holdfast.planning import prepare

CLIENTS = 6
SECONDS, LEASE_NS = 4, 1_000_000_000
REQUESTS = (Op.READ, Op.WRITE)
OF_SERVERS = (Op.SERVED_READ, Op.SERVED_WRITE)


@cache
def ran(workload: str, **options: str) -> Ran:
    """Six clients of the reference service for `SECONDS` of virtual time, without faults."""
    table = {
        "system": "reference",
        "backend": "sim",
        "workload": workload,
        "time": f"{SECONDS}s",
        "lease": "1s",
        "clients": CLIENTS,
        "locks": 2,
        "seed": 11,
        # The reference service has priorities with this order only.
        "options": {"queue": "priority", **options} if workload == "priority-flood" else options,
    }
    plan = prepare.prepared(parse(table, prepare.KNOWN, "plan"))
    return seed_search.in_memory(prepare.manifest(plan, workload, ""))


def history(workload: str, **options: str) -> History:
    """Its history."""
    return ran(workload, **options).case.history


def calls(workload: str, *ops: Op, **options: str) -> Rows:
    """Its calls of these kinds by the six clients, in order; the probe left out."""
    rows = history(workload, **options).rows
    ours = (rows["process"] <= CLIENTS) & (rows["process"] > 0)
    return np.asarray(rows[np.isin(rows["f"], ops) & ours])


def grants(workload: str, **options: str) -> Rows:
    """Its acquires that were granted."""
    asked = calls(workload, Op.ACQUIRE, Op.TRY, **options)
    return np.asarray(asked[asked["status"] == Status.OK])


@cache
def holds(workload: str, **options: str) -> list[Rows]:
    """For each grant, in order of the acquires: the client's rows of its attempt."""
    rows = history(workload, **options).rows
    rows = rows[~np.isin(rows["f"], OF_SERVERS)]
    order = np.argsort(rows["attempt"], kind="stable")
    attempts = rows["attempt"][order]
    granted = grants(workload, **options)["attempt"]
    spans = zip(
        np.searchsorted(attempts, granted, "left"),
        np.searchsorted(attempts, granted, "right"),
        strict=True,
    )
    return [rows[order[first:last]] for first, last in spans]
