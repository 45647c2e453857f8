"""Half-open connections: those that are open carry nothing more, new ones work.

Models
    A firewall, NAT gateway or load balancer that lost its table, or fell over to another: packets
    of the TCP connections that are open now are dropped silently, in one direction or in both. Each
    end still takes its connection for open. A program that notices (a keepalive, a timeout) and
    reconnects works; one that waits for a response on the old connection waits on.
Needs
    link: a network namespace per node with nftables. Without an open connection between the nodes
    it has no effect.
Heals
    The old connections work again, if both ends still have them.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.link_fault import OnLinks

NEMESIS = OnLinks(
    name="half-open",
    act="half-open",
    traits=Traits(passes=True, on_packets=True, simulator=NOT_SIMULATED, pattern="partition"),
)
