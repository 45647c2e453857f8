"""An operator compacts the history of the service up to the present revision.

Models
    The periodic compaction that every etcd cluster needs: a client that watches from an earlier
    revision has to begin again, and a member may crash while it deletes.
Needs
    compact: a system with a command for it, on the backends local and local-proxy: etcd.
Heals
    Nothing: the history stays deleted; `for` is only the time until the end of the fault is
    recorded.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import COMPACT, NOT_SIMULATED, Traits
from holdfast.nemesis.operation import OnService

TRAITS = Traits(operates=COMPACT, simulator=NOT_SIMULATED, pattern="kill")
NEMESIS = OnService(name="compact", traits=TRAITS, usual=lambda n, rng: "leader|one")
