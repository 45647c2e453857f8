"""All servers are killed and started again, each after its predecessor is ready.

Models
    An upgrade, a change of the configuration or a patch of the machines: at most one server is down
    at any time, and each leader steps down once.
Needs
    rolling-restart: a system with servers that keep their state in their data folders, on the
    backends local and local-proxy.
Heals
    Every server is started before the next one is killed; `for` is only the time until the end of
    the fault is recorded.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, RESTART, Traits
from holdfast.nemesis.operation import OnService

TRAITS = Traits(kills_later=True, operates=RESTART, simulator=NOT_SIMULATED, pattern="kill")
NEMESIS = OnService(name="rolling-restart", traits=TRAITS)
