"""Limits of memory: servers get hardly any more memory, so that the kernel reclaims, or kills.

Models
    A container at its memory limit, a neighbour that takes the memory: from the injection on, all
    processes of a server together get `spare` (0) bytes more. The kernel takes file pages from
    them, and kills one when that is not enough (OOM kill). The leader first, then any server.
Needs
    memory-limit: control groups of memory, of version 1 or 2, in which the fault agent may make a
    group and move processes (root). Not the simulator.
Heals
    The limit is lifted and the processes are back in their own groups. A server that was killed is
    started again.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.node_fault import in_turn
from holdfast.nemesis.options import size_bytes
from holdfast.nemesis.server_fault import OnServers

NEMESIS = OnServers(
    name="memory-limit",
    agent=("holdfast.nemesis.agent.limits.memory_limit:MEMORY_LIMIT",),
    usual=in_turn(("leader|one",), ("leader|one", "follower|one", "minority|one", "all")),
    traits=Traits(kills_later=True, simulator=NOT_SIMULATED, pattern="kill"),
    known={"spare": size_bytes},
    args=lambda params: {"spare": size_bytes(params.get("spare", "0"))},
)
