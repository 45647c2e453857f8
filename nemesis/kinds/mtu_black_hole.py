"""Path-MTU black hole: small packets between some nodes pass, large ones are dropped silently.

Models
    A tunnel or a VPN with a smaller MTU, whose ICMP messages a firewall drops: packets of more than
    `mtu` bytes (576) vanish. Heartbeats and short calls work, so a node looks healthy; a large
    value, a snapshot or a batch of log entries never arrives, however often it is sent.
Needs
    link: a network namespace per node with nftables.
Heals
    Packets of every size pass; connections go on with TCP's next retransmission.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.link_fault import OnLinks, from_one

MTU = from_one(65535)

NEMESIS = OnLinks(
    name="mtu-black-hole",
    act="mtu",
    traits=Traits(passes=True, on_packets=True, simulator=NOT_SIMULATED, pattern="partition"),
    known={"mtu": MTU},
    args=lambda params: {"bytes": MTU(params.get("mtu", "576"))},
)
