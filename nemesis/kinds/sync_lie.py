"""Servers whose disks report every sync as done without making it, and then lose power.

Models
    A disk or controller with a volatile write cache that ignores flushes, a hypervisor that caches
    writes unsafely. Only a power loss shows it. The hardware breaks its own promise, so no system
    is judged by its promises in such a run: what it loses is shown.
Needs
    sync-lie: a disk of its own for each server, as for `power`, and processes whose system calls
    the fault agent may trace (x86-64 Linux). fsync and fdatasync are skipped, O_DSYNC and msync
    are not; the kernel's own writeback, every 5 to 30 s, still reaches the disk. Not the simulator.
Heals
    The syncs are real again and the power is lost, before the node restarts.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.node_fault import in_turn
from holdfast.nemesis.server_fault import OnServers

FIRST = ("leader|one", "all")

TRAITS = Traits(
    kills_later=True,
    needs_disk=True,
    loses_unsynced=True,
    lies=True,
    simulator=NOT_SIMULATED,
    pattern="kill",
)
NEMESIS = OnServers(
    name="sync-lie",
    agent=("holdfast.nemesis.agent.disks.disk_faults:SYNC_LIE",),
    usual=in_turn(FIRST, FIRST),
    traits=TRAITS,
)
