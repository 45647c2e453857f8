"""Reordered packets: some packets between some nodes are late, and later ones overtake them.

Models
    Several routes of different lengths: `share` of the packets (0.3) is late by `by` (20ms), the
    others are not. TCP restores the order, at the cost of time and of needless retransmissions.
    It takes effect when a packet was overtaken by another one of the same node.
Needs
    link: a network namespace per node with nftables and the kernel's packet queue.
Heals
    What waits passes at once; later packets are not late.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.harness.core.json_value import Json
from holdfast.nemesis.link_fault import OnLinks, late_ns, share_ppm


def _args(params: Mapping[str, str]) -> Mapping[str, Json]:
    by_ns = late_ns(params.get("by", "20ms"))
    return {"share_ppm": share_ppm(params.get("share", "0.3")), "by_ns": by_ns}


NEMESIS = OnLinks(
    name="packet-reorder",
    act="reorder",
    traits=Traits(passes=True, on_packets=True, simulator=NOT_SIMULATED),
    known={"share": share_ppm, "by": late_ns},
    args=_args,
)
