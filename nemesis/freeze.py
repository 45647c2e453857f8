"""Processes that stop in the middle of a send, and finish it when they go on.

Models
    The pause at the worst moment: the holder has looked at its lease and is about to write when a
    garbage collection or a page fault stops it; what it was sending arrives long after the lease is
    over. The holder first, then the leader, then whoever, for one and a half leases.
Needs
    freeze: only the simulator stops a node inside a call; a signal comes between two of them.
Heals
    The node goes on: the send leaves first, then all that has come for it meanwhile.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from holdfast.harness.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.targets import resolve
from holdfast.nemesis.timetable import TIMING, slots

FIRST = ("holder", "leader|one", "holder")
LATER = ("holder", "leader|one", "follower", "minority", "client")


class Freeze:
    """Implements the port `Nemesis`. Options: target, every, for, lease."""

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        read.read("freeze", options, {"target": str, **TIMING})
        times = slots("freeze", rng, options, span_ns)
        return [
            Fault(
                id=f"freeze-{n + 1}",
                do="freeze",
                target=options.get("target") or (FIRST[n] if n < len(FIRST) else rng.choice(LATER)),
                at_ns=at_ns,
                for_ns=for_ns,
            )
            for n, (at_ns, for_ns) in enumerate(times)
        ]

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """What to ask of the simulator now. Errors: Unresolved (a LookupError)."""
        nodes = resolve(fault.target, view, rng)
        return [Request(do="freeze", args={"fault": fault.id, "nodes": nodes})]


NEMESIS = Freeze()
