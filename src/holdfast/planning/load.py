"""How many processes make the load of a run, and at what rate: what fits together, and defaults."""

from __future__ import annotations

import os
from dataclasses import replace

from holdfast.harness.plans.plan import Plan

OWN_PROCESS_UP_TO = 16
"""Up to so many clients each has a process of its own, which a fault can hit alone."""


def problems(plan: Plan) -> list[str]:
    """What does not fit, one line each."""
    found = []
    rate, workers = (plan.options.get(name, "0") for name in ("rate", "workers"))
    if rate != "0" and plan.workload != "paced":
        found.append(f"a rate goes with --workload paced, not with {plan.workload}")
    if not workers.isdigit() or workers == "0":
        return found
    if plan.workload != "paced":
        found.append(
            f"workers go with --workload paced, not with {plan.workload}: a fault on a"
            " client has to find it alone"
        )
    if plan.backend == "sim":
        found.append("workers go with real processes; the simulator has none")
    if int(workers) > plan.clients:
        found.append(f"{workers} workers cannot share {plan.clients} clients (--clients)")
    return found


def shared(plan: Plan) -> Plan:
    """The plan with its many clients spread over as many processes as there are cores here."""
    spread = plan.workload == "paced" and plan.backend != "sim" and "workers" not in plan.options
    if not spread or plan.clients <= OWN_PROCESS_UP_TO:
        return plan
    return replace(plan, options={**plan.options, "workers": str(os.cpu_count() or 1)})
