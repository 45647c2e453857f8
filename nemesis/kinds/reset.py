"""Connections that are reset before a request gets to the server.

Models
    A load balancer or firewall that drops its table: the request is lost, the client sees a reset,
    once in a fault (count=N for more), after after=BYTES of requests (0).
Needs
    disturb: a client with a network of its own, in which the fault agent forwards what it sends; in
    the simulator frames between a client and a lock server can be lost like that.
Heals
    What comes later passes.
"""

from __future__ import annotations

from holdfast.nemesis.client_fault import OnTheWire

NEMESIS = OnTheWire(name="reset", simulated=True)
