"""Silent owners for runs with faults of servers: else few leases are in force when one strikes."""

from __future__ import annotations

from dataclasses import replace

from holdfast import catalogue
from holdfast.checkers.opportunities.row import FaultClass, fault_class
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.plans.plan import Plan
from holdfast.planning.resolve import system_options
from holdfast.workloads.shape import LATE_NS

OPTION = "lazy_pct"
SHARE = "25"
LATE = "late_pct"
LATE_SHARE = "40"
STOPPED = "stopped"
WITHOUT_FAULTS = {OPTION: "5", LATE: "50"}
"""Nothing but a late owner puts the service, or the resource, to the test then; few of them, for
these runs are also read for what a lock can do."""
WORKLOADS = ("critical-section", "renewal")
"""Workloads whose owners would release or renew early in each lease."""
STOPPING = "critical-section"
"""The workload whose late owners may be paused with all of their process."""
CLASSES = {FaultClass.CRASH, FaultClass.CUT, FaultClass.CLOCK}
"""Classes whose rows need long leases in force. Most pauses strike a holder, or a leader whom
others replace only when all leases are over."""
OF_USERS = ("program",)
"""Locks whose promises are their authors', and known only with the lock."""


def with_lazy_holders(plan: Plan) -> Plan:
    """The plan with a quarter of its holds silent for most of their lease, if it asks for faults of
    these classes and does not say otherwise. Scenarios stage their own holds.

    Some of these owners wake up when their lease is over: only then a service has to tell them from
    the current one, and a resource has something to refuse. Where a session ends a hold, which a
    thread of the library keeps alive, the owner's process does not run until then. Without faults
    there are silent owners for the sake of late ones only, and not in the simulator, whose seeds
    are kept and counted by plan.
    """
    if plan.scenario or plan.workload not in WORKLOADS or OPTION in plan.options:
        return plan
    kinds = dict.fromkeys((*(name for name, _ in plan.nemeses), *(one.do for one in plan.faults)))
    rows = [catalogue.NEMESES[kind] for kind in kinds if kind in catalogue.NEMESES]
    late = _late(plan)
    if not kinds:
        if plan.backend in catalogue.VIRTUAL_TIME:
            return plan
        lazy = {**WITHOUT_FAULTS, **late, LATE: WITHOUT_FAULTS[LATE]} if late else {}
        return replace(plan, options={**plan.options, **lazy})
    if not any(fault_class(row.traits) in CLASSES for row in rows):
        return plan
    return replace(plan, options={**plan.options, OPTION: SHARE, **late})


def _late(plan: Plan) -> dict[str, str]:
    """Options by which owners go on after their lease without breaking a promise by themselves:
    that a write after the end of a hold is refused, or that a holder that does not ask is notified
    of its loss before it wakes up. None if that cannot be, or the plan says how many are late."""
    if plan.system not in catalogue.SYSTEMS or plan.system in OF_USERS or LATE in plan.options:
        return {}
    try:
        promises = load(catalogue.SYSTEMS[plan.system].entry).promises(system_options(plan))
    except UsageError:
        return {}  # the check of the plan says why
    in_time = "loss-notice" not in promises.keeps or promises.notice_ns > LATE_NS
    if "no-expired-write" in promises.keeps or not in_time:
        return {}
    if promises.bound == "lease":
        return {LATE: LATE_SHARE}
    stops = plan.workload == STOPPING and plan.backend not in catalogue.VIRTUAL_TIME
    return {LATE: LATE_SHARE, STOPPED: "1"} if promises.bound == "session" and stops else {}
