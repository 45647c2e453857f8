"""Processes that stop in the middle of a send, and finish it when they resume.

Models
    The pause at the worst moment: the holder has checked its lease and is about to write when a GC
    pause or a page fault stops it; the send arrives long after the lease has expired. The holder
    first, then the leader, then any node, for 1.5 leases.
Needs
    freeze: only the simulator stops a node inside a call; a signal arrives between two calls.
Heals
    The node resumes: the send leaves first, then it reads what has arrived meanwhile.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import SIMULATOR_ONLY, Swarm, Traits
from holdfast.nemesis.node_fault import Aimed, in_turn

FIRST = ("holder", "leader|one", "holder")
LATER = ("holder", "leader|one", "follower", "minority", "client")

TRAITS = Traits(
    stops_amid_send=True,
    simulator=SIMULATOR_ONLY,
    stand_in="pause",
    swarm=Swarm(places=(5,), targets=("", "holder", "waiter")),
)
NEMESIS = Aimed(name="freeze", usual=in_turn(FIRST, LATER), traits=TRAITS)
