"""An operator makes another server the leader: handed over by the leader, or forced.

Models
    A planned switch before maintenance (`via=handover`), or a replica that is promoted by hand
    (`via=force`): what the leader acknowledged and the replica does not have yet is lost, and a
    former leader that still runs is a second one (split brain).
Needs
    manual-failover: a system with a command for it, on the backends local and local-proxy. etcd
    hands over only, redis-sentinel forces only, redis-cluster does both, and so do the PostgreSQL
    systems with `--set replicas=1`: for a handover the primary is shut down first. `via=force` with
    target=n1 does not need a leader that responds. PostgreSQL: it waits up to 20 s for a standby
    that can be promoted.
Heals
    The new leader stays. A forced former leader of PostgreSQL runs on for `for`; then it is killed,
    its files are deleted, and it starts as a copy of the new one. Elsewhere `for` is only the time
    until the end of the fault is recorded.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import FORCE, HANDOVER, NOT_SIMULATED, Traits
from holdfast.nemesis.operation import OnService
from holdfast.nemesis.options import one_of

TRAITS = Traits(kills_later=True, operates=HANDOVER, simulator=NOT_SIMULATED, pattern="kill")
NEMESIS = OnService(
    name="manual-failover",
    traits=TRAITS,
    usual=lambda n, rng: "leader",
    known={"via": one_of(HANDOVER, FORCE)},
)
