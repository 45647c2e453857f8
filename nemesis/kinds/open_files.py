"""Open files: servers have no file descriptor left.

Models
    A leak of descriptors, a limit that is too small: the limit of open files of each process is the
    number of its next descriptor, and `spare` (0) more. It accepts no connection (a thread that
    waits for one already gets it) and opens no file; open ones work. The leader first, then any
    server.
Needs
    open-files: processes of the fault agent's own user, whose limits it may set (prlimit).
Heals
    The limit that each process had. A server that exited is started again.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.client_fault import whole
from holdfast.nemesis.node_fault import in_turn
from holdfast.nemesis.server_fault import OnServers

NEMESIS = OnServers(
    name="open-files",
    agent=("holdfast.nemesis.agent.limits.open_files:OPEN_FILES",),
    usual=in_turn(("leader|one",), ("leader|one", "follower|one", "minority|one", "all")),
    traits=Traits(kills_later=True, simulator=NOT_SIMULATED),
    known={"spare": whole},
    args=lambda params: {"spare": whole(params.get("spare", "0"))},
)
