"""An operator defragments the file of a server, which does nothing else meanwhile.

Models
    The maintenance after a compaction, one member after the other: the leader last, by the book. A
    crash while the file is replaced is `failpoint` with `then=kill` at the same time.
Needs
    defragment: a system with a command for it, on the backends local and local-proxy: etcd.
Heals
    Nothing; `for` is only the time until the end of the fault is recorded.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import DEFRAGMENT, NOT_SIMULATED, Traits
from holdfast.nemesis.operation import OnService

TRAITS = Traits(operates=DEFRAGMENT, simulator=NOT_SIMULATED, pattern="kill")
NEMESIS = OnService(name="defragment", traits=TRAITS, usual=lambda n, rng: "one")
