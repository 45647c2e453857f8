"""Processes that stop in the middle of what they do, and go on as if nothing had happened.

Models
    A long garbage collection, an overloaded or migrated virtual machine, a suspended laptop: every
    thread of a node stands still (SIGSTOP) for two leases unless `for` says otherwise, so that the
    lock passes to others meanwhile.
    The holder every second time: it goes on in the belief that it still holds.
Needs
    pause: processes that the fault agent may signal.
Heals
    SIGCONT to everything that was stopped; a kill in the meantime makes it moot.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from holdfast.harness.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.targets import resolve
from holdfast.nemesis.timetable import TIMING, slots

OTHERS = ("leader|one", "follower", "minority", "majority", "client", "resource")


class Pause:
    """Implements the port `Nemesis`. Options: target, every, for, lease."""

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        read.read("pause", options, {"target": str, **TIMING})
        times = slots("pause", rng, options, span_ns, leases=2)
        return [
            Fault(
                id=f"pause-{n + 1}",
                do="pause",
                target=options.get("target") or _usual(n, rng),
                at_ns=at_ns,
                for_ns=for_ns,
            )
            for n, (at_ns, for_ns) in enumerate(times)
        ]

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """What to ask of the fault agent now. Errors: Unresolved (a LookupError)."""
        nodes = resolve(fault.target, view, rng)
        return [Request(do="pause", args={"fault": fault.id, "nodes": nodes})]


def _usual(n: int, rng: random.Random) -> str:
    """Every second time the holder: only its pause makes a request that is late past the lease."""
    other = rng.choice(OTHERS)
    return "holder" if n % 2 == 0 else "leader|one" if n == 1 else other


NEMESIS = Pause()
