"""Servers that die in the middle of a disk write, of which only the beginning stays.

Models
    A power loss or a kill between two blocks of one write: the records at its beginning are
    durable, the rest is not, and no response that depends on it has been sent. The leader first,
    then any server; it restarts when the fault is over, and recovers from its disk.
Needs
    torn-write: processes whose system calls the fault agent may trace (x86-64 Linux), or the
    simulator. On hosts a write is cut between two sectors of 512 bytes, because a disk writes each
    sector wholly or not at all; a shorter write is not cut.
Heals
    The reply to the heal names the nodes to restart, as for `kill`; if no write came, the fault has
    no effect.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import Swarm, Traits
from holdfast.nemesis.node_fault import Aimed, in_turn

FIRST = ("leader|one",)
LATER = ("leader|one", "follower", "minority|one", "all")

TRAITS = Traits(
    kills_later=True,
    stand_in="kill",
    swarm=Swarm(places=(11,), targets=("all",), disks=True),
)
NEMESIS = Aimed(
    name="torn-write",
    agent=("holdfast.nemesis.agent.tracing.system_calls:TORN_WRITE",),
    usual=in_turn(FIRST, LATER),
    traits=TRAITS,
)
"""Takes effect only if the system writes to a disk."""
