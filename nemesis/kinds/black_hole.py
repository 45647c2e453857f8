"""Connections that take everything and give nothing back.

Models
    A path that swallows both ways without a word: calls end by their own timeouts only. New
    connections are taken and hang. After the fault those that lost bytes are reset.
Needs
    disturb: a client with a network of its own, in which the fault agent forwards what it sends.
Heals
    What comes later passes.
"""

from __future__ import annotations

from holdfast.nemesis.client_fault import OnTheWire

NEMESIS = OnTheWire(name="black-hole")
