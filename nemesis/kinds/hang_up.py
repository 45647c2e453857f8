"""Connections of one client that are ended from the server's side, whether in use or not.

Models
    A session that the server terminates, an idle timeout of a load balancer, a server that shuts
    down in good order: all connections which the client has open are closed at both ends at once,
    each in good order. The server lets go of what hung on them; the client may not look.
Needs
    disturb: a client with a network of its own, in which the fault agent forwards what it sends.
Heals
    New connections pass at once; those that were ended do not come back.
"""

from __future__ import annotations

from holdfast.nemesis.client_fault import OnTheWire

NEMESIS = OnTheWire(name="hang-up")
