"""A backup of all servers that is restored later: the service goes back to its earlier state.

Models
    An operator restores a backup: leases, tokens and revisions go back with it. The backup is taken
    at the injection and put back at the heal, so `for` is its age.
Needs
    backup-restore: a system whose servers keep their state in their data folders, on the backends
    local and local-proxy, or the simulator. `via=copy` pauses all servers during the copy;
    `via=snapshot` uses the service's own commands (etcd: etcdctl snapshot save and restore).
    `advance=N` advances the token counter by N before clients reach the servers: etcd and redis, on
    the backend local.
Heals
    The heal is the restore: servers are killed, their data is replaced, they are started again.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import COPY, SNAPSHOT, Traits
from holdfast.nemesis.client_fault import whole
from holdfast.nemesis.operation import OnService
from holdfast.nemesis.options import one_of

TRAITS = Traits(kills_later=True, operates=COPY, pattern="kill")
NEMESIS = OnService(
    name="backup-restore",
    traits=TRAITS,
    known={"via": one_of(COPY, SNAPSHOT), "advance": whole},
    args=lambda params: {"advance": int(params.get("advance", "0"))},
    leases=2,
)
