"""Servers that stop in the middle of a write to their disk, and finish it when they go on.

Models
    A disk that hangs, a full write-back cache, a snapshot of the volume: what was being written is
    not durable yet, and nothing that depends on it has been answered. The leader first, then any
    server, for one and a half leases.
Needs
    freeze-write: only the simulator stops a node inside a write.
Heals
    The write is done, then the node goes on; a write that never came leaves no trace.
"""

from __future__ import annotations

from holdfast.nemesis.node_fault import Aimed, in_turn

FIRST = ("leader|one",)
LATER = ("leader|one", "follower", "minority|one")

NEMESIS = Aimed(name="freeze-write", usual=in_turn(FIRST, LATER))
"""Bites only where the system writes to a disk."""
