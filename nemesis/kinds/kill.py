"""Processes that are killed, and restart later from their disks.

Models
    A crash, the OOM killer, a power loss of one process (not of its disk: completed writes stay):
    SIGKILL, then a restart after `for`. The leader first, then a majority, then the holder, then
    any node; a killed client restarts as a new process.
Needs
    kill: processes that the fault agent may signal, and a driver that restarts them.
Heals
    The reply to the heal names the nodes to restart; the driver restarts and adopts them.
"""

from __future__ import annotations

from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.fault_traits import Swarm, Traits
from holdfast.nemesis.node_fault import Aimed, in_turn

FIRST = ("leader|one", "majority|one", "holder")
LATER = ("leader|one", "one", "holder", "minority|one", "majority", "all")

TRAITS = Traits(
    kills=True,
    pattern="kill",
    swarm=Swarm(
        places=(3, 12),
        targets=("", "all", "holder", "waiter"),
        # Restarted at once: lost state shows best before any client has waited.
        instant_ns=(20 * MILLISECOND,) * 3,
    ),
)
NEMESIS = Aimed(
    name="kill",
    agent=("holdfast.nemesis.agent.signals:KILL",),
    usual=in_turn(FIRST, LATER),
    traits=TRAITS,
    straddles=True,
)
