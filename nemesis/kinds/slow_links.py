"""Slow links: every packet between some nodes takes longer, in one direction or in both.

Models
    A congested or long route, a bad cable with retransmissions: packets to the target (way=in),
    from it (way=out) or both (way=both) arrive later by `by`, by default half a lease, and by up to
    `jitter` more, at random (0s). A server is slow to the other servers, or to the clients if
    servers do not communicate; a client is slow to all servers; `peer=` names other ends, such as
    peer=resource. No packet is lost, and the order on a connection is kept. The leader first, then
    the holder, then any server.
Needs
    link: a network namespace per node with nftables and the kernel's packet queue; or the
    simulator.
Heals
    New packets are not delayed. What waits in a packet queue passes at once; in the simulator it
    still arrives late.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.core.durations import duration_text
from holdfast.harness.core.fault_traits import Swarm, Traits
from holdfast.harness.core.json_value import Json
from holdfast.nemesis.link_fault import OnLinks, late_ns
from holdfast.nemesis.timetable import lease_ns


def _args(params: Mapping[str, str]) -> Mapping[str, Json]:
    jitter_ns = late_ns(params.get("jitter", "0s"))
    return {"by_ns": late_ns(params.get("by", "100ms")), "jitter_ns": jitter_ns}


NEMESIS = OnLinks(
    name="slow-links",
    act="delay",
    traits=Traits(passes=True, on_packets=True, swarm=Swarm(places=(6,))),
    known={"by": late_ns, "jitter": late_ns},
    defaults=lambda options: {"by": duration_text(lease_ns(options) // 2)},
    args=_args,
)
