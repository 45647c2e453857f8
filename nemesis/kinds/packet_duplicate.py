"""Duplicated packets: a random share of the packets between some nodes arrives twice.

Models
    A route that changes, a bridge with a loop, two links for one: `share` of the packets (0.3) is
    received a second time. TCP discards the copies, so programs over TCP must not notice; protocols
    over UDP do. Not a request that a client sends twice: that is the workload duplicate-request.
Needs
    link: a network namespace per node with nftables.
Heals
    Packets arrive once.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.link_fault import OnLinks, share_ppm

NEMESIS = OnLinks(
    name="packet-duplicate",
    act="duplicate",
    traits=Traits(passes=True, leaves_running=True, on_packets=True, simulator=NOT_SIMULATED),
    known={"share": share_ppm},
    args=lambda params: {"share_ppm": share_ppm(params.get("share", "0.3"))},
)
