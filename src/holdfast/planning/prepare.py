"""Completes a plan: names become entries, faults become exact.

All mistakes of the user are reported here, before any process is started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast import catalogue
from holdfast.catalogue.table import Names
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Fault
from holdfast.harness.plans.command_line import run_command
from holdfast.harness.plans.plan import LEASE_NS, Known, Plan
from holdfast.planning import checks, offered_load, own_code
from holdfast.planning.backends import clients_here, usable_backend
from holdfast.planning.drawing import draw
from holdfast.planning.manifest import manifest as manifest
from holdfast.planning.resolve import Prepared, resolve
from holdfast.scenarios import staging


def lease_of(system: str) -> int:
    """The lease of a plan of this system that names none, ns."""
    row = catalogue.SYSTEMS.get(system)
    return (row.lease_ns if row is not None else 0) or LEASE_NS


KNOWN = Known(
    systems=Names(catalogue.SYSTEMS),
    backends=Names(catalogue.BACKENDS),
    workloads=Names(catalogue.WORKLOADS),
    nemeses=Names(catalogue.NEMESES),
    resources=tuple(catalogue.RESOURCES),
    swarm_backend=catalogue.VIRTUAL_TIME[0],
    checkers=Names(catalogue.CHECKERS),
    lease_of=lease_of,
)


def complete(plan: Plan) -> Plan:
    """The plan with all defaults and all sampled faults; UsageError lists its mistakes."""
    return prepared(plan).plan


def prepared(plan: Plan) -> Prepared:
    """The complete plan, resolved; UsageError lists its mistakes."""
    for need in catalogue.PLAN_NEEDS:
        plan = load(need)(plan)
    found = checks.aimed(resolve(plan))
    plan = found.plan
    problems = checks.problems(found)
    drawn: Sequence[Fault] = ()
    try:
        drawn = draw(plan, found.servers)
    except UsageError as error:
        problems += error.problems
    if problems:
        raise UsageError(*problems)
    full = replace(
        offered_load.shared(plan),
        backend=usable_backend(plan.backend),
        nodes=found.servers,
        resource=checks.resource_of(found),
        faults=(*plan.faults, *drawn),
    )
    return replace(found, plan=full)


def notes(found: Prepared) -> list[str]:
    """One line for each thing that will keep the run from exercising what it asks for."""
    plan, row, lines = found.plan, found.workload, list[str]()
    if plan.locks < row.locks:
        lines.append(
            f"{plan.workload} with {plan.locks} lock cannot exercise {found.asks[0]}, which needs"
            f" {row.locks}: add --locks {row.locks}"
        )
    packages = own_code.installed(plan)
    elsewhere = not clients_here(plan) and plan.backend not in catalogue.VIRTUAL_TIME
    if packages and elsewhere and not found.system.libraries:
        lines.append(
            f"{plan.system} imports {', '.join(packages)}: clients on {plan.backend} have the"
            f" standard library and its `libraries`, of which it names none"
        )
    return lines


def command(plan: Plan) -> str:
    """The command line that repeats this run."""
    if plan.scenario:
        return staging.command(plan)
    return run_command(plan)
