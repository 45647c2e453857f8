"""Lossy links: a random share of the packets between some nodes is dropped.

Models
    A bad cable, a full router, radio: `share` of the packets (0.3) to the target (way=in), from it
    (way=out) or both is lost. TCP sends them again after 0.2 s and more, so calls take longer and
    some exceed their timeouts. `peer=` names other ends than the other servers. The leader first,
    then the holder, then any server.
Needs
    link: a network namespace per node with nftables.
Heals
    All packets pass; connections go on with TCP's next retransmission.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.link_fault import OnLinks, share_ppm

NEMESIS = OnLinks(
    name="packet-loss",
    act="loss",
    traits=Traits(passes=True, on_packets=True, simulator=NOT_SIMULATED, pattern="partition"),
    known={"share": share_ppm},
    args=lambda params: {"share_ppm": share_ppm(params.get("share", "0.3"))},
)
