"""A member is removed, and joins again under the same address with an empty data folder.

Models
    An operator replaces a broken machine: the member is killed and removed from the cluster, and
    after `for` it is added with a new identity. A service that only starts the same member on an
    empty disk would let it vote twice. The leader first, then any member.
Needs
    replace-member: a system whose members can be removed and added while the others serve, with at
    least 3 servers, on the backends local and local-proxy.
Heals
    The heal adds the member and starts it; it copies the state from the others.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, REPLACE, Traits
from holdfast.nemesis.node_fault import in_turn
from holdfast.nemesis.operation import OnService

TRAITS = Traits(kills_later=True, operates=REPLACE, simulator=NOT_SIMULATED, pattern="kill")
NEMESIS = OnService(
    name="replace-member", traits=TRAITS, usual=in_turn(("leader|one",), ("leader|one", "one"))
)
