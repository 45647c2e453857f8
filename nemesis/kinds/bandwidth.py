"""Narrow links: the packets between some nodes leave at a limited rate.

Models
    A saturated or throttled link: what a node receives from each other end takes its turn at `rate`
    (64kbit; bit, kbit or mbit in a second). Without a burst, so that short exchanges are slowed as
    well: 100 bytes take 13 ms at 64 kbit/s. A backlog grows as behind a full router.
Needs
    link: a network namespace per node with nftables and the kernel's packet queue.
Heals
    The backlog passes at once; later packets do not wait.
"""

from __future__ import annotations

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.nemesis.link_fault import OnLinks, rate_bits

NEMESIS = OnLinks(
    name="bandwidth",
    act="bandwidth",
    traits=Traits(passes=True, on_packets=True, simulator=NOT_SIMULATED),
    known={"rate": rate_bits},
    args=lambda params: {"rate": rate_bits(params.get("rate", "64kbit"))},
)
