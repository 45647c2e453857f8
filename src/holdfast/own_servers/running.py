"""Servers that already run, in a plan: which systems have them, which faults remain possible."""

from __future__ import annotations

from dataclasses import replace

from holdfast import catalogue
from holdfast.clusters.systems.relay import given
from holdfast.harness.plans.plan import RUNNING, Plan
from holdfast.planning.resolve import Prepared

BACKEND = "local-proxy"
CLIENTS = ("holder", "waiter", "waiters")
"""Targets of a fault that are nodes of clients, beside those by name."""


def with_servers(plan: Plan, servers: str) -> Plan:
    """The plan on servers that already run."""
    count = servers.count(",") + 1
    return replace(plan, nodes=count, options={**plan.options, RUNNING: servers})


def problems(found: Prepared) -> list[str]:
    """Why the plan cannot use servers that already run, one line each."""
    if RUNNING not in found.options:
        return []
    plan, listed = found.plan, given(found.options)
    told = []
    if plan.backend != BACKEND:
        told.append(f"--servers: clients reach running servers from --backend {BACKEND} only")
    if len(found.system.ports) != 1:
        told.append(f"--servers: {plan.system} has not one port for each server")
    if not all(host and port for host, port in listed):
        told.append("--servers: expected HOST:PORT for each server, as in 127.0.0.1:6379")
    elif plan.nodes not in (0, len(listed)):
        told.append(f"--servers lists {len(listed)} servers and --nodes {plan.nodes}")
    planned = [*plan.nemeses, *((fault.do, {"target": fault.target}) for fault in plan.faults)]
    for name, options in planned:
        target = options.get("target", "")
        if not catalogue.NEMESES[name].traits.in_client and not _of_clients(target):
            told.append(
                f"nemesis {name}: running servers are not Holdfast's to disturb: only faults of"
                f" clients, as in {name}:target=holder, and of their links"
            )
    return told


def _of_clients(target: str) -> bool:
    """Whether every node of a target is a client's."""
    parts = target.replace("/", "+").split("+")
    return all(part in CLIENTS or (part[:1] == "c" and part[1:].isdecimal()) for part in parts)
