"""Whether a backend and this machine can carry the processes of a plan."""

from __future__ import annotations

import shutil
from pathlib import Path

from holdfast import catalogue
from holdfast.harness.core.errors import NEXT
from holdfast.harness.plans.plan import Plan
from holdfast.harness.recording.segments import segment_bytes

BESIDE = 2
"""Nodes beside servers and clients: the resource and the probe."""
CLIENT_MIB = 26
"""Memory that one client process has for itself (measured with redis-py)."""
MIB = 1 << 20
BESIDE_BYTES = 2 * MIB
"""Of a run directory beside the recorded rows: the code for the nodes, logs, data of servers."""
MEMORY = Path("/proc/meminfo")


def workers(plan: Plan) -> int:
    """Number of processes that the plan's clients share."""
    given = plan.options.get("workers", "")
    return (int(given) if given.isdigit() else 0) or plan.clients


def too_many(plan: Plan, servers: int) -> list[str]:
    """That the backend has not that many nodes, in one line at most."""
    most = catalogue.BACKENDS[plan.backend].most_nodes
    nodes = servers + workers(plan) + BESIDE
    if not most or nodes <= most:
        return []
    return [
        f"--clients {plan.clients}: {nodes} nodes; backend {plan.backend} supports at most {most}:"
        f" use --clients {max(1, most - servers - BESIDE)}, or --workload paced --workers 8, whose"
        " processes share the clients"
    ]


def too_large(plan: Plan) -> str | None:
    """That this machine has no memory for the client processes of a plan, in one sentence."""
    if not catalogue.BACKENDS[plan.backend].clients_here:
        return None
    free_mib, needed_mib = available_mib(), workers(plan) * CLIENT_MIB
    if free_mib is None or needed_mib <= free_mib:
        return None
    return (
        f"--clients {plan.clients}: their processes need about {needed_mib} MiB, and this machine"
        f" has {free_mib} MiB available, enough for {free_mib // CLIENT_MIB} clients"
    )


def no_space(plan: Plan, folder: Path) -> str | None:
    """That the disk of a run directory cannot take the first rows of a plan's clients, in one
    sentence: each recorder allocates its file before its client begins."""
    if not catalogue.BACKENDS[plan.backend].clients_here:
        return None
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    needed_mib = -(-((workers(plan) + BESIDE) * segment_bytes() + BESIDE_BYTES) // MIB)
    free_mib = shutil.disk_usage(folder).free // MIB
    if needed_mib <= free_mib:
        return None
    return (
        f"{folder}: the run needs {needed_mib} MiB on this disk to begin with --clients"
        f" {plan.clients}, and it has {free_mib} MiB free: {NEXT}"
    )


def available_mib() -> int | None:
    """Memory that processes of this machine can still have, MiB; None: unknown."""
    try:
        lines = MEMORY.read_text().splitlines()
        (found,) = (line for line in lines if line.startswith("MemAvailable:"))
        return int(found.split()[1]) // 1024
    except (OSError, ValueError, IndexError):
        return None
