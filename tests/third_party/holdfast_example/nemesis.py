"""A nemesis that pauses two clients at once."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.targets import resolve
from holdfast.nemesis.timetable import TIMING, slots


class CrowdPause:
    """Pauses the holder and one waiter together."""

    traits = Traits(stops=True, passes=True, pattern="pause")

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        read.read("crowd-pause", options, TIMING)
        return [
            Fault(id=f"c{n}", do="crowd-pause", target="holder+waiter", at_ns=at_ns, for_ns=for_ns)
            for n, (at_ns, for_ns) in enumerate(slots("crowd-pause", rng, options, span_ns))
        ]

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the fault agent. Errors: Unresolved (a LookupError)."""
        nodes = resolve(fault.target, view, rng)
        return [Request(do="pause", args={"fault": fault.id, "nodes": nodes})]


CROWD_PAUSE = CrowdPause()
