"""Servers that stop in the middle of a disk write, and finish it when they resume.

Models
    A disk that hangs, a full write-back cache, a snapshot of the volume: the write is not durable
    yet, and no response that depends on it has been sent. The leader first, then any server, for
    1.5 leases.
Needs
    freeze-write: processes whose system calls the fault agent may trace (x86-64 Linux), or the
    simulator. On hosts it is the next write to a regular file that is not the log, or its sync.
Heals
    The write completes, then the node resumes; if no write came, the fault has no effect.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import Swarm, Traits
from holdfast.nemesis.node_fault import Aimed, in_turn

FIRST = ("leader|one",)
LATER = ("leader|one", "follower", "minority|one")

TRAITS = Traits(
    stand_in="pause",
    swarm=Swarm(places=(10,), disks=True),
)
NEMESIS = Aimed(
    name="freeze-write",
    agent=("holdfast.nemesis.agent.tracing.system_calls:FREEZE_WRITE",),
    usual=in_turn(FIRST, LATER),
    traits=TRAITS,
)
"""Takes effect only if the system writes to a disk."""
