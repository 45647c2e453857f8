"""Processes that stop in the middle of a send, and finish it when they resume.

Models
    The pause at the worst moment: the holder has checked its lease and is about to write when a GC
    pause or a page fault stops it; the send arrives long after the lease has expired. The holder
    first, then the leader, then any node, for 1.5 leases.
Needs
    freeze: processes whose system calls the fault agent may trace (x86-64 Linux), or the simulator;
    a signal would arrive between two calls.
Heals
    The node resumes: the send leaves first, then it reads what has arrived meanwhile. If no send
    came, the fault has no effect.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import Swarm, Traits
from holdfast.nemesis.node_fault import Aimed, in_turn

FIRST = ("holder", "leader|one", "holder")
LATER = ("holder", "leader|one", "follower", "minority", "client")

TRAITS = Traits(
    stops_amid_send=True,
    stand_in="pause",
    swarm=Swarm(places=(5,), targets=("", "holder", "waiter")),
)
NEMESIS = Aimed(
    name="freeze",
    agent=("holdfast.nemesis.agent.tracing.system_calls:FREEZE",),
    usual=in_turn(FIRST, LATER),
    traits=TRAITS,
)
