"""Slow links: every frame between some nodes takes longer, in one direction or in both.

Models
    A congested or long route, a bad cable with retransmissions: frames to the target (way=in), from
    it (way=out) or both (way=both) arrive later by `by`, by default half a lease. A server is slow
    to the other servers, or to the clients if servers do not communicate; a client is slow to all
    servers. No frame is lost, and the order on a connection is kept. The leader first, then the
    holder, then any server.
Needs
    slow: links with a configurable delay; the simulator has them.
Heals
    New frames are not delayed; delayed ones on their way still arrive late.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from holdfast.harness.core.durations import duration_ns, duration_text
from holdfast.harness.core.fault_traits import SIMULATOR_ONLY, Swarm, Traits
from holdfast.harness.core.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.options import one_of
from holdfast.nemesis.targets import Unresolved, clients, resolve, servers
from holdfast.nemesis.timetable import TIMING, lease_ns, slots

WAYS = ("in", "out", "both")
PARAMS: dict[str, Callable[[str], object]] = {"by": duration_ns, "way": one_of(*WAYS)}
FIRST = ("leader|one", "holder")


class SlowLinks:
    """Implements the port `Nemesis`. Options: target, by, way, every, for, lease."""

    traits = Traits(passes=True, simulator=SIMULATOR_ONLY, swarm=Swarm(places=(6,)))

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        read.read("slow-links", options, {"target": str, **PARAMS, **TIMING})
        by = options.get("by", duration_text(lease_ns(options) // 2))
        faults = []
        for n, (at_ns, for_ns) in enumerate(slots("slow-links", rng, options, span_ns)):
            way = rng.choice(WAYS)
            faults.append(
                Fault(
                    id=f"slow-links-{n + 1}",
                    do="slow-links",
                    target=options.get("target") or (FIRST[n] if n < len(FIRST) else "one"),
                    at_ns=at_ns,
                    for_ns=for_ns,
                    params={"by": by, "way": options.get("way", way)},
                )
            )
        return faults

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the fault agent now. Errors: Unresolved (a LookupError), UsageError."""
        read.read("slow-links", fault.params, PARAMS)
        nodes = resolve(fault.target, view, rng)
        others = [name for name in servers(view) if name not in nodes]
        if not view.peers and all(node in servers(view) for node in nodes):
            others = clients(view)
        if not others:
            raise Unresolved(f"{fault.target}: {'+'.join(nodes)} has links to no other server")
        address = {node.name: node.address for node in view.nodes}
        way = fault.params.get("way", "both")
        links = []
        if way != "out":
            links += [{"node": node, "from": [address[one] for one in others]} for node in nodes]
        if way != "in":
            links += [{"node": one, "from": [address[node] for node in nodes]} for one in others]
        by_ns = duration_ns(fault.params.get("by", "100ms"))
        args = {"fault": fault.id, "nodes": nodes, "links": links, "by_ns": by_ns}
        return [Request(do="slow", args=args)]


NEMESIS = SlowLinks()
