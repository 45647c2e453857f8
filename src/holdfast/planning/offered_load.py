"""Load of a run: number of worker processes and rate; their checks and defaults."""

from __future__ import annotations

import os
from dataclasses import replace

from holdfast.catalogue import VIRTUAL_TIME
from holdfast.harness.plans.plan import Plan

OWN_PROCESS_UP_TO = 16
"""Up to this number, each client has its own process, which a fault can hit alone."""


def problems(plan: Plan) -> list[str]:
    """Contradictions in the plan's load, one line each."""
    found = []
    rate, workers = (plan.options.get(name, "0") for name in ("rate", "workers"))
    if rate != "0" and plan.workload != "paced":
        found.append(f"--rate requires --workload paced, not {plan.workload}")
    if not workers.isdigit() or workers == "0":
        return found
    if plan.workload != "paced":
        found.append(
            f"--workers requires --workload paced, not {plan.workload}: other workloads need one"
            " process per client, so that a fault can hit one client"
        )
    if plan.backend in VIRTUAL_TIME:
        found.append("--workers requires real processes; --backend sim has none")
    if int(workers) > plan.clients:
        found.append(f"--workers {workers} is more than --clients {plan.clients}")
    return found


def shared(plan: Plan) -> Plan:
    """The plan with its clients distributed over one process per core."""
    processes = plan.backend not in VIRTUAL_TIME and "workers" not in plan.options
    spread = plan.workload == "paced" and processes
    if not spread or plan.clients <= OWN_PROCESS_UP_TO:
        return plan
    return replace(plan, options={**plan.options, "workers": str(os.cpu_count() or 1)})
