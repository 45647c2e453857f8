"""Disks that hang: every write and sync waits until the fault is over.

Models
    A storage network that stalls, a disk that retries, a snapshot of the volume. The server still
    answers what needs no write. An acquire that returns ok meanwhile is on no disk: a power loss
    would take it back. The leader first, then any server.
Needs
    disk-hang: a disk of its own for each server, as for `power`. Not the simulator.
Heals
    The disk is thawed and all waiting writes are made. If the fault agent is killed, a process of
    its own thaws the disk.
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
    hangs_disk=True,
    simulator=NOT_SIMULATED,
    pattern="pause",
)
NEMESIS = OnServers(
    name="disk-hang",
    agent=("holdfast.nemesis.agent.disks.disk_faults:DISK_HANG",),
    usual=in_turn(FIRST, LATER),
    traits=TRAITS,
)
