"""Replies that take longer: a slow network, or a slow server, for one client.

Models
    Every reply to the client is delayed by by=200ms; requests are not delayed.
Needs
    disturb: a client with its own network, in which the fault agent forwards its traffic.
Heals
    Later replies are not delayed.
"""

from __future__ import annotations

from holdfast.nemesis.client_fault import OnTheWire

NEMESIS = OnTheWire(name="delay")
