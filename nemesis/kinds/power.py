"""Servers that lose power: what they had not synced is gone; they restart later from their disks.

Models
    A power loss, a kernel panic, a virtual machine that is reset. A SIGKILL keeps every completed
    write, because the kernel has it; here the kernel loses it too. The leader first, then all
    servers, then any choice; `target` must be servers.
Needs
    power: a disk of its own for each server: ext4 on a loop device as root on the local backend, or
    the simulator, whose every kill is a power loss.
Heals
    The kernel replays the journal of the disk before the reply to the injection; the reply to the
    heal names the nodes to restart, as for `kill`.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import Traits
from holdfast.nemesis.node_fault import in_turn
from holdfast.nemesis.server_fault import OnServers

FIRST = ("leader|one", "all")
LATER = ("leader|one", "one", "minority|one", "majority", "all")

TRAITS = Traits(
    kills=True,
    needs_disk=True,
    loses_unsynced=True,
    pattern="kill",
)
NEMESIS = OnServers(
    name="power",
    agent=("holdfast.nemesis.agent.disks.disk_faults:POWER",),
    usual=in_turn(FIRST, LATER),
    traits=TRAITS,
    straddles=True,
)
