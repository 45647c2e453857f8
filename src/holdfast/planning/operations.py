"""Operators' work in a plan: what its system and its backend cannot do, before the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast import catalogue
from holdfast.harness.core.fault_traits import OPERATIONS, REPLACE, UPGRADE
from holdfast.harness.core.ports import Advances, Operated, Releases
from holdfast.harness.plans.plan import Plan
from holdfast.nemesis.options import unknown
from holdfast.planning.resolve import Prepared

LEAST_MEMBERS = 3


def problems(found: Prepared) -> list[str]:
    """Why operations of the plan cannot be carried out, one line each."""
    lines = (
        f"nemesis {name}: {why}"
        for name, options in _kinds(found.plan)
        if (what := catalogue.NEMESES[name].traits.operation(options))
        for why in (
            *_refusals(found, what),
            *_not_advanced(found, options.get("advance", "0")),
            *_no_release(found, what, options.get("to", "")),
        )
    )
    return list(dict.fromkeys(lines))


def _kinds(plan: Plan) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Kinds of fault and their options."""
    yield from plan.nemeses
    yield from ((fault.do, fault.params) for fault in plan.faults)


def _not_advanced(found: Prepared, advance: str) -> Iterator[str]:
    if advance == "0":
        return
    if not isinstance(found.system, Advances):
        yield f"{found.plan.system}: its token counter cannot be advanced (option advance)"
    elif not catalogue.BACKENDS[found.plan.backend].networks:
        yield "option advance closes the servers to clients: use --backend local"


def _no_release(found: Prepared, what: str, to: str) -> Iterator[str]:
    if what == UPGRADE and isinstance(found.system, Releases):
        known = found.system.releases(found.options)
        if to not in known:
            yield f"option to: {unknown('release', to, known)}"


def _refusals(found: Prepared, what: str) -> Iterator[str]:
    plan, backend = found.plan, catalogue.BACKENDS[found.plan.backend]
    if what not in OPERATIONS:
        return  # The nemesis itself reports a wrong `via`.
    if not found.row.most:
        yield f"{plan.system}: Holdfast starts no servers for it on which an operator could work"
        return
    if not isinstance(found.system, Operated):
        yield f"{plan.system} does not declare what operators can do to its servers"
        return
    why = found.system.operations(found.options).get(what, "not supported")
    if why:
        yield f"{plan.system}: {why}"
    elif not backend.virtual_time and not backend.programs_here:
        yield "servers must run on this machine: use --backend local or local-proxy"
    elif what == REPLACE and found.servers < LEAST_MEMBERS:
        yield f"it needs at least {LEAST_MEMBERS} servers, not {found.servers}: use --nodes"
