"""Disks of their own for the servers of a plan: which plan gets them, and where there are none."""

from __future__ import annotations

from dataclasses import replace

from holdfast import catalogue
from holdfast.harness.core.loading import load
from holdfast.harness.plans.manifest import DISK
from holdfast.harness.plans.plan import Plan
from holdfast.planning.resolve import Prepared, backend_options, kinds_of, options_of

USUAL_MIB = "512"
"""Size of a disk where a kind of fault needs one; only what is written takes memory."""
SIZES = range(16, 65537)


def with_disks(plan: Plan) -> Plan:
    """The plan with a disk for each server, if one of its kinds of fault needs that."""
    if not _in_need(plan) or DISK in plan.options or DISK not in options_of(plan.backend):
        return plan
    return replace(plan, options={**plan.options, DISK: USUAL_MIB})


def problems(found: Prepared) -> list[str]:
    """Why the plan's servers cannot have the disks that it needs, in one line at most."""
    plan = found.plan
    backend, needed = catalogue.BACKENDS[plan.backend], _in_need(plan)
    size = backend_options(plan).get(DISK, "0")
    if backend.virtual_time or not (needed or size != "0"):
        return []
    who = f"nemesis {needed[0]}" if needed else f"option {DISK}"
    if not backend.disks:
        elsewhere = f"{plan.system} {found.confined_because()}, which have none"
        hint = elsewhere if found.backends() else "use --backend local, as root"
        return [f"{who} needs a disk of its own for each server: {hint}"]
    if not size.isdigit() or int(size) not in SIZES:
        return [f"invalid option {DISK}={size}: expected {SIZES[0]} to {SIZES[-1]}"]
    reason = load(backend.disks)()
    return [f"{who}: {reason}"] if reason else []


def _in_need(plan: Plan) -> list[str]:
    return [kind for kind in kinds_of(plan) if catalogue.NEMESES[kind].traits.needs_disk]
