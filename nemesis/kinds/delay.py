"""Replies that take longer: a slow network, or a slow server, for one client.

Models
    Every reply to the client is held back by by=200ms; requests arrive at once.
Needs
    disturb: a client with a network of its own, in which the fault agent forwards what it sends.
Heals
    What comes later passes.
"""

from __future__ import annotations

from holdfast.nemesis.client_fault import OnTheWire

NEMESIS = OnTheWire(name="delay")
