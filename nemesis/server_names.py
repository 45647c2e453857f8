"""Names that a system gives its servers, in the place of node names in the targets of faults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from holdfast.harness.core.ports import NamesServers, System
from holdfast.harness.plans.plan import Plan
from holdfast.nemesis.targets import NODE, ROLES

AIMED = ("target", "peer")
WORD = re.compile(r"[A-Za-z0-9._-]+")
RESERVED = frozenset((*ROLES, "probe"))


def in_nodes(plan: Plan, system: System) -> Plan:
    """The plan with node names where a target has a name that the system gives a server."""
    nodes = _nodes(system)
    if not nodes:
        return plan
    return replace(
        plan,
        nemeses=tuple((name, _aimed(options, nodes)) for name, options in plan.nemeses),
        faults=tuple(
            replace(fault, target=_word(fault.target, nodes), params=_aimed(fault.params, nodes))
            for fault in plan.faults
        ),
    )


def problems(plan: Plan, system: System) -> list[str]:
    """Names of servers that mean something else in a target, one line each."""
    if not isinstance(system, NamesServers):
        return []
    names = [name for names in system.server_names.values() for name in names]
    wrong = [name for name in names if name in RESERVED or NODE.fullmatch(name)]
    return [f"{plan.system}: a target named {name} is another: rename it" for name in wrong]


def _nodes(system: System) -> dict[str, str]:
    """Name of a server -> its node."""
    if not isinstance(system, NamesServers):
        return {}
    return {
        name: node
        for node, names in system.server_names.items()
        for name in names
        if name not in RESERVED and not NODE.fullmatch(name)
    }


def _aimed(options: Mapping[str, str], nodes: Mapping[str, str]) -> dict[str, str]:
    return {
        name: _word(value, nodes) if name in AIMED else value for name, value in options.items()
    }


def _word(target: str, nodes: Mapping[str, str]) -> str:
    return WORD.sub(lambda match: nodes.get(match[0], match[0]), target)
