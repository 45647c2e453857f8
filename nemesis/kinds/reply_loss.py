"""Replies that get lost after the server has processed the request.

Models
    The worst moment for a connection to break: the command was executed, its reply is dropped and
    the client's connection reset, once per fault (count=N for more). A client that retries sends
    the command twice. Only that client is disturbed, not its server or other clients.
Needs
    disturb: a client with its own network, in which the fault agent forwards its traffic; in the
    simulator, frames between a client and a lock server can be lost like that.
Heals
    Later replies pass.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import Swarm, Traits
from holdfast.nemesis.client_fault import OnTheWire

TRAITS = Traits(
    on_connections=True,
    passes=True,
    swarm=Swarm(places=(7, 15), targets=("client", "waiter"), options={"count": ("1", "3", "10")}),
)
NEMESIS = OnTheWire(name="reply-loss", traits=TRAITS)
