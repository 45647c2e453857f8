"""One thread of a client that stalls while the rest of its process runs.

Models
    A blocking call on an event loop, a long computation under the GIL: the thread that makes the
    client's calls does nothing for the fault's length. Threads by which a library renews or listens
    keep running.
Needs
    order: a running client.
Heals
    The stall ends when its time is over.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.client_fault import InTheProcess

TRAITS = Traits(in_client=True, passes=True, simulator=NOT_SIMULATED)
NEMESIS = InTheProcess(name="stall", traits=TRAITS)
