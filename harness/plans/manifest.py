"""The manifest of a run: everything that was decided before it began, as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from holdfast.harness.core.ports import Fault
from holdfast.harness.plans.plan import Plan


def plan_table(plan: Plan) -> dict[str, Any]:
    """The plan as plain values, every fault exact."""
    return asdict(plan)


def plan_of(manifest: Mapping[str, Any]) -> Plan:
    """The plan that a manifest holds."""
    table = dict(manifest["plan"])
    faults = tuple(Fault(**fault) for fault in table.pop("faults"))
    nemeses = tuple((name, dict(options)) for name, options in table.pop("nemeses"))
    return Plan(**table, faults=faults, nemeses=nemeses)
