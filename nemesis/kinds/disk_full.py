"""Disks without free space: a write that needs a new block fails with ENOSPC.

Models
    A log that was never rotated, a neighbour on the same volume. Blocks that a server has already
    may be written again. The leader first, then any server; one that exits is started again at the
    heal.
Needs
    disk-full: a disk of its own for each server, as for `power`. Not the simulator.
Heals
    The file that took the space is removed; it has no name, so the kernel does it too.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.node_fault import in_turn
from holdfast.nemesis.server_fault import OnServers

FIRST = ("leader|one",)
LATER = ("leader|one", "follower|one", "minority|one", "all")

TRAITS = Traits(
    kills_later=True,
    needs_disk=True,
    simulator=NOT_SIMULATED,
)
NEMESIS = OnServers(
    name="disk-full",
    agent=("holdfast.nemesis.agent.disks.disk_faults:DISK_FULL",),
    usual=in_turn(FIRST, LATER),
    traits=TRAITS,
)
