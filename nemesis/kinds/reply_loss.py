"""Replies that get lost after the server has done what it was asked.

Models
    The worst moment for a connection to break: the command was carried out, its answer is swallowed
    and the client sees a reset, once in a fault (count=N for more). Whoever asks again asks twice.
    That client alone is disturbed; its server and the other clients are not.
Needs
    disturb: a client with a network of its own, in which the fault agent forwards what it sends; in
    the simulator frames between a client and a lock server can be lost like that.
Heals
    What comes later passes.
"""

from __future__ import annotations

from holdfast.nemesis.client_fault import OnTheWire

NEMESIS = OnTheWire(name="reply-loss", simulated=True)
