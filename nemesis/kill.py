"""Processes that end without a word, and come back later from what they had kept.

Models
    A crash, the kernel's memory killer, a power loss of one process (not of its disk: what was
    written stays): SIGKILL, then a restart when `for` is over. The leader first, then a minority,
    then the holder, then whoever; a client that is killed comes back as a new process.
Needs
    kill: processes that the fault agent may signal, and a driver that starts them again.
Heals
    The reply to the heal names the nodes to restart; the driver starts and adopts them anew.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from holdfast.harness.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.targets import resolve
from holdfast.nemesis.timetable import TIMING, slots

FIRST = ("leader|one", "minority|one", "holder")
LATER = ("leader|one", "one", "holder", "minority|one", "majority", "all")


class Kill:
    """Implements the port `Nemesis`. Options: target, every, for, lease."""

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        read.read("kill", options, {"target": str, **TIMING})
        times = slots("kill", rng, options, span_ns)
        return [
            Fault(
                id=f"kill-{n + 1}",
                do="kill",
                target=options.get("target") or (FIRST[n] if n < len(FIRST) else rng.choice(LATER)),
                at_ns=at_ns,
                for_ns=for_ns,
            )
            for n, (at_ns, for_ns) in enumerate(times)
        ]

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """What to ask of the fault agent now. Errors: Unresolved (a LookupError)."""
        nodes = resolve(fault.target, view, rng)
        return [Request(do="kill", args={"fault": fault.id, "nodes": nodes})]


NEMESIS = Kill()
