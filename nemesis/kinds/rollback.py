"""The data folder of one server is put back to an earlier copy; the other servers go on.

Models
    A virtual machine that is reset to its snapshot, a volume that is restored, a container started
    on an old image of its disk. Consensus assumes that this never happens: a vote, or an entry that
    was acknowledged, is forgotten. The leader first, then any server.
Needs
    rollback: a system whose servers keep their state in their data folders, on the backends local
    and local-proxy, or the simulator. The server is paused during the copy.
Heals
    The heal is the rollback: the server is killed, its data is replaced, it is started again.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import COPY, Traits
from holdfast.nemesis.node_fault import in_turn
from holdfast.nemesis.operation import OnService

TRAITS = Traits(kills_later=True, operates=COPY, pattern="kill")
NEMESIS = OnService(
    name="rollback",
    traits=TRAITS,
    usual=in_turn(("leader|one",), ("leader|one", "one")),
    leases=2,
)
