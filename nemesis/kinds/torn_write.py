"""Servers that die in the middle of a write to their disk, of which only the beginning stays.

Models
    A power loss or a kill between two blocks of one write: the records at its beginning are
    durable, the rest is not, and nothing that depends on it has been answered. The leader first,
    then any server; it comes back when the fault is over, and recovers from what there is.
Needs
    torn-write: only the simulator ends a node inside a write.
Heals
    The reply to the heal names the nodes to restart, as for `kill`; a write that never came leaves
    no trace.
"""

from __future__ import annotations

from holdfast.nemesis.node_fault import Aimed, in_turn

FIRST = ("leader|one",)
LATER = ("leader|one", "follower", "minority|one", "all")

NEMESIS = Aimed(name="torn-write", usual=in_turn(FIRST, LATER))
"""Bites only where the system writes to a disk."""
