"""Silent owners for runs with faults of servers: else few leases are in force when one strikes."""

from __future__ import annotations

from dataclasses import replace

from holdfast import catalogue
from holdfast.checkers.opportunities.fault_classes import FaultClass, fault_class
from holdfast.harness.plans.plan import Plan

OPTION = "lazy_pct"
SHARE = "25"
WORKLOADS = ("critical-section", "renewal")
"""Workloads whose owners would release or renew early in each lease."""
CLASSES = {FaultClass.CRASH, FaultClass.CUT, FaultClass.CLOCK}
"""Classes whose rows need long leases in force. Most pauses strike a holder, or a leader whom
others replace only when all leases are over."""


def with_lazy_holders(plan: Plan) -> Plan:
    """The plan with a quarter of its holds silent for most of their lease, if it asks for faults of
    these classes and does not say otherwise. Scenarios stage their own holds."""
    if plan.scenario or plan.workload not in WORKLOADS or OPTION in plan.options:
        return plan
    kinds = dict.fromkeys((*(name for name, _ in plan.nemeses), *(one.do for one in plan.faults)))
    rows = [catalogue.NEMESES[kind] for kind in kinds if kind in catalogue.NEMESES]
    if not any(fault_class(row.traits) in CLASSES for row in rows):
        return plan
    return replace(plan, options={**plan.options, OPTION: SHARE})
