"""Connections that drop all data in both directions without closing.

Models
    A path that drops packets silently: calls end only by their own timeouts. New connections are
    accepted and hang. After the fault, connections that lost bytes are reset.
Needs
    disturb: a client with its own network, in which the fault agent forwards its traffic.
Heals
    Later data passes.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.client_fault import OnTheWire

TRAITS = Traits(on_connections=True, simulator=NOT_SIMULATED)
NEMESIS = OnTheWire(name="black-hole", traits=TRAITS)
