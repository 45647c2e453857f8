"""Disks that are slow to sync: every fsync and fdatasync takes longer by `by`.

Models
    A disk that is shared, worn out or rebuilding. `by` is 500ms by default; the thread that syncs
    waits, all others go on. The leader first, then any server.
Needs
    disk-slow: processes whose system calls the fault agent may trace (x86-64 Linux); no disk of
    their own. Not the simulator, whose option is sim_sync_us.
Heals
    A sync that waits is made, and later ones are not delayed.
"""

from __future__ import annotations

from holdfast.harness.core.durations import duration_ns
from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.node_fault import in_turn
from holdfast.nemesis.server_fault import OnServers

FIRST = ("leader|one",)
LATER = ("leader|one", "follower|one", "minority|one", "all")

NEMESIS = OnServers(
    name="disk-slow",
    agent=("holdfast.nemesis.agent.tracing.system_calls:DISK_SLOW",),
    usual=in_turn(FIRST, LATER),
    traits=Traits(kills_later=True, simulator=NOT_SIMULATED),
    known={"by": duration_ns},
    args=lambda params: {"by_ns": duration_ns(params.get("by", "500ms"))},
)
