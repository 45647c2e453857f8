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
WORKLOADS = ("critical-section", "renewal")
"""Workloads whose owners would release or renew early in each lease."""
CLASSES = {FaultClass.CRASH, FaultClass.CUT, FaultClass.CLOCK}
"""Classes whose rows need long leases in force. Most pauses strike a holder, or a leader whom
others replace only when all leases are over."""
OF_USERS = ("program",)
"""Locks whose promises are their authors', and known only with the lock."""


def with_lazy_holders(plan: Plan) -> Plan:
    """The plan with a quarter of its holds silent for most of their lease, if it asks for faults of
    these classes and does not say otherwise. Scenarios stage their own holds.

    Some of these owners wake up when their lease is over: only then a service has to tell them from
    the current one, and a resource has something to refuse.
    """
    if plan.scenario or plan.workload not in WORKLOADS or OPTION in plan.options:
        return plan
    kinds = dict.fromkeys((*(name for name, _ in plan.nemeses), *(one.do for one in plan.faults)))
    rows = [catalogue.NEMESES[kind] for kind in kinds if kind in catalogue.NEMESES]
    if not any(fault_class(row.traits) in CLASSES for row in rows):
        return plan
    late = {LATE: LATE_SHARE} if LATE not in plan.options and _may_be_late(plan) else {}
    return replace(plan, options={**plan.options, OPTION: SHARE, **late})


def _may_be_late(plan: Plan) -> bool:
    """Whether owners may go on after their lease without breaking a promise by themselves: that a
    write after the end of a hold is refused, or that a holder that does not ask is notified of its
    loss before it wakes up."""
    if plan.system not in catalogue.SYSTEMS or plan.system in OF_USERS:
        return False
    try:
        promises = load(catalogue.SYSTEMS[plan.system].entry).promises(system_options(plan))
    except UsageError:
        return False  # the check of the plan says why
    in_time = "loss-notice" not in promises.keeps or promises.notice_ns > LATE_NS
    refuses = "no-expired-write" in promises.keeps
    return bool(promises.bound == "lease" and in_time and not refuses)
