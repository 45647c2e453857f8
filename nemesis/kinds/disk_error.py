"""Disks that report errors: syncs, writes or both fail.

Models
    A bad sector, a controller that gave up, a quota. call=sync (default), write or disk (both);
    error=EIO (default), ENOSPC, EDQUOT or EROFS; count=0 (default): all calls until the heal. The
    leader first, then any server; one that exits, as it should after a failed sync, is started
    again at the heal.
Needs
    disk-error: processes whose system calls the fault agent may trace (x86-64 Linux); no disk of
    their own. Not the simulator.
Heals
    Later calls are made.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.client_fault import whole
from holdfast.nemesis.node_fault import in_turn
from holdfast.nemesis.options import one_of
from holdfast.nemesis.server_fault import OnServers

FIRST = ("leader|one",)
LATER = ("leader|one", "follower|one", "minority|one", "all")

NEMESIS = OnServers(
    name="disk-error",
    agent=("holdfast.nemesis.agent.tracing.system_calls:DISK_ERROR",),
    usual=in_turn(FIRST, LATER),
    traits=Traits(kills_later=True, simulator=NOT_SIMULATED),
    known={
        "call": one_of("sync", "write", "disk"),
        "error": one_of("EIO", "ENOSPC", "EDQUOT", "EROFS"),
        "count": whole,
    },
    args=lambda params: {
        "call": params.get("call", "sync"),
        "error": params.get("error", "EIO"),
        "count": int(params.get("count", "0")),
    },
)
