"""Processes that stop in the middle of a send, and finish it when they go on.

Models
    The pause at the worst moment: the holder has looked at its lease and is about to write when a
    garbage collection or a page fault stops it; what it was sending arrives long after the lease is
    over. The holder first, then the leader, then whoever, for one and a half leases.
Needs
    freeze: only the simulator stops a node inside a call; a signal comes between two of them.
Heals
    The node goes on: the send leaves first, then all that has come for it meanwhile.
"""

from __future__ import annotations

from holdfast.nemesis.node_fault import Aimed, in_turn

FIRST = ("holder", "leader|one", "holder")
LATER = ("holder", "leader|one", "follower", "minority", "client")

NEMESIS = Aimed(name="freeze", usual=in_turn(FIRST, LATER))
