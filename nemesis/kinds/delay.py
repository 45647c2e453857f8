"""Replies that take longer: a slow network, or a slow server, for one client.

Models
    Every reply to the client is delayed by by=200ms; requests are not delayed.
Needs
    disturb: a client with its own network, in which the fault agent forwards its traffic.
Heals
    Later replies are not delayed.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.client_fault import OnTheWire

TRAITS = Traits(on_connections=True, passes=True, leaves_running=True, simulator=NOT_SIMULATED)
NEMESIS = OnTheWire(name="delay", traits=TRAITS)
