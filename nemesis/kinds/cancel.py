"""Calls that their own caller cancels while they run: a timeout, a closed request, a shutdown.

Models
    `asyncio.wait_for`, a web framework that drops a request: a running call of the client is
    cancelled (count=1 per fault) when it has lasted after=1ms. The caller then releases what it may
    have got; if the release was cancelled, it repeats it once.
Needs
    order: a client over a library of coroutines; a call of a blocking library cannot be cancelled
    and is reported as not exercised.
Heals
    Calls that have not been cancelled by then are not cancelled.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import Swarm, Traits
from holdfast.nemesis.client_fault import InTheProcess

TRAITS = Traits(
    in_client=True,
    swarm=Swarm(
        places=(9,),
        targets=("client", "waiter"),
        options={"count": ("1", "3", "10"), "after": ("1ms", "20ms", "200ms")},
    ),
)
NEMESIS = InTheProcess(name="cancel", traits=TRAITS)
