"""Operators' work in a plan: what its system and its backend cannot do, before the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast import catalogue
from holdfast.harness.core.fault_traits import OPERATIONS, REPLACE
from holdfast.harness.core.ports import Operated
from holdfast.harness.plans.plan import Plan
from holdfast.planning.resolve import Prepared

LEAST_MEMBERS = 3


def problems(found: Prepared) -> list[str]:
    """Why operations of the plan cannot be carried out, one line each."""
    plan = found.plan
    asked = dict.fromkeys((name, what) for name, what in _asked(plan) if what)
    return [f"nemesis {name}: {why}" for name, what in asked for why in _refusals(found, what)]


def _asked(plan: Plan) -> Iterator[tuple[str, str]]:
    """Kinds of fault and the operation that they carry out."""
    faults = ((fault.do, fault.params) for fault in plan.faults)
    kinds: Iterator[tuple[str, Mapping[str, str]]] = iter((*plan.nemeses, *faults))
    for name, options in kinds:
        yield name, catalogue.NEMESES[name].traits.operation(options)


def _refusals(found: Prepared, what: str) -> Iterator[str]:
    plan, backend = found.plan, catalogue.BACKENDS[found.plan.backend]
    if what not in OPERATIONS:
        return  # The nemesis itself reports a wrong `via`.
    if not isinstance(found.system, Operated):
        yield f"{plan.system} does not declare what operators can do to its servers"
        return
    why = found.system.operations(found.options).get(what, "not supported")
    nodes = plan.nodes or found.row.nodes
    if why:
        yield f"{plan.system}: {why}"
    elif not backend.virtual_time and not backend.programs_here:
        yield "servers must run on this machine: use --backend local or local-proxy"
    elif what == REPLACE and nodes < LEAST_MEMBERS:
        yield f"it needs at least {LEAST_MEMBERS} servers, not {nodes}: use --nodes"
