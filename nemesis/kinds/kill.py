"""Processes that end without a word, and come back later from what they had kept.

Models
    A crash, the kernel's memory killer, a power loss of one process (not of its disk: what was
    written stays): SIGKILL, then a restart when `for` is over. The leader first, then a minority,
    then the holder, then whoever; a client that is killed comes back as a new process.
Needs
    kill: processes that the fault agent may signal, and a driver that starts them again.
Heals
    The reply to the heal names the nodes to restart; the driver starts and adopts them anew.
"""

from __future__ import annotations

from holdfast.nemesis.node_fault import Aimed, in_turn

FIRST = ("leader|one", "minority|one", "holder")
LATER = ("leader|one", "one", "holder", "minority|one", "majority", "all")

NEMESIS = Aimed(name="kill", usual=in_turn(FIRST, LATER))
