"""Connections of one client that are closed from the server's side, idle or not.

Models
    A session that the server terminates, an idle timeout of a load balancer, a graceful shutdown of
    a server: all open connections of the client are closed at both ends at once, gracefully. The
    server drops what was bound to them; the client may not notice.
Needs
    disturb: a client with its own network, in which the fault agent forwards its traffic.
Heals
    New connections pass at once; closed ones do not come back.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.client_fault import OnTheWire

TRAITS = Traits(on_connections=True, simulator=NOT_SIMULATED)
NEMESIS = OnTheWire(name="hang-up", traits=TRAITS)
