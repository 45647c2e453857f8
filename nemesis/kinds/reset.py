"""Connections that are reset before a request reaches the server.

Models
    A load balancer or firewall that drops its table: the request is lost and the client's
    connection reset, once per fault (count=N for more), after after=BYTES of requests (0).
Needs
    disturb: a client with its own network, in which the fault agent forwards its traffic; in the
    simulator, frames between a client and a lock server can be lost like that.
Heals
    Later requests pass.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import Swarm, Traits
from holdfast.nemesis.client_fault import OnTheWire

TRAITS = Traits(
    on_connections=True,
    passes=True,
    swarm=Swarm(places=(8,), targets=("client", "waiter"), options={"count": ("1", "3", "10")}),
)
NEMESIS = OnTheWire(name="reset", traits=TRAITS)
