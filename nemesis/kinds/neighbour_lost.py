"""Neighbour lost: a node sends its packets for another one to a machine that does not exist.

Models
    A stale ARP entry: an address that moved to another machine without an announcement, a duplicate
    address, a switch that forgot. Only the sender's table is wrong (way=out: the target's, way=in:
    that of the other ends), so packets arrive in the other direction.
Needs
    link: a network namespace per node with nftables and iproute2, and nodes on one network segment.
Heals
    The entry is removed, and the kernel resolves the address again.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.link_fault import OnLinks

NEMESIS = OnLinks(
    name="neighbour-lost",
    act="neighbour",
    traits=Traits(passes=True, on_packets=True, simulator=NOT_SIMULATED, pattern="partition"),
    at_sender=True,
)
