"""Wall clocks that step, drift or strobe; monotonic clocks are not affected.

Models
    A correction by NTP, a bad oscillator, an administrator's `date`: the wall clock of every
    process of a node is stepped by `step`, runs at `rate` (1.5: 50% faster), or toggles the step
    every `strobe`. Servers or clients, process by process; never the host's clock.
    By default the leader is 2.5 leases ahead, then the holder 2.5 leases behind, then any node.
Needs
    set_clock: x86-64 Linux that lets the fault agent write to the memory of a process.
Heals
    The true clock at once, which is a step back by the present offset.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from holdfast.harness.core.durations import duration_ns, duration_text
from holdfast.harness.core.fault_traits import Swarm, Traits
from holdfast.harness.core.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.options import rate_ppm
from holdfast.nemesis.targets import resolve
from holdfast.nemesis.timetable import TIMING, lease_ns, slots

MOVES = {"step": duration_ns, "rate": rate_ppm, "strobe": duration_ns}
TARGETS = ("leader|one", "holder", "one", "minority|one", "all", "clients")
RATES = ("0.5", "1.5", "3")
STROBES = ("20ms", "200ms")


class Clock:
    """Implements the port `Nemesis`. Options: target, step, rate, strobe, every, for, lease."""

    agent = ("holdfast.nemesis.agent.clocks:CLOCKS",)
    traits = Traits(
        shifts_clocks=True,
        leaves_running=True,
        pattern="clock",
        swarm=Swarm(places=(4, 13), targets=("leader|one", "leader|one", "all")),
    )

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        read.read("clock", options, {"target": str, **MOVES, **TIMING})
        asked = {name: text for name, text in options.items() if name in MOVES}
        far_ns = lease_ns(options) * 5 // 2
        if set(asked) == {"strobe"}:
            asked["step"] = duration_text(far_ns)
        faults = []
        for n, (at_ns, for_ns) in enumerate(slots("clock", rng, options, span_ns)):
            target, params = _usual(n, far_ns, rng)
            faults.append(
                Fault(
                    id=f"clock-{n + 1}",
                    do="clock",
                    target=options.get("target") or target,
                    at_ns=at_ns,
                    for_ns=for_ns,
                    params=asked or params,
                )
            )
        return faults

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the fault agent now. Errors: Unresolved (a LookupError), UsageError."""
        read.read("clock", fault.params, MOVES)
        args = {
            "fault": fault.id,
            "nodes": resolve(fault.target, view, rng),
            "step_ns": duration_ns(fault.params.get("step", "0s")),
            "rate_ppm": rate_ppm(fault.params.get("rate", "1")),
            "strobe_ns": duration_ns(fault.params.get("strobe", "0s")),
        }
        return [Request(do="set_clock", args=args)]


def _usual(n: int, far_ns: int, rng: random.Random) -> tuple[str, dict[str, str]]:
    """Default target and shift of the n-th fault."""
    ahead, behind = {"step": duration_text(far_ns)}, {"step": duration_text(-far_ns)}
    any_target, step = rng.choice(TARGETS), rng.choice((ahead, behind))
    strobe = {**step, "strobe": rng.choice(STROBES)}
    move = rng.choice((step, {"rate": rng.choice(RATES)}, strobe))
    if n == 0:
        return "leader|one", ahead
    if n == 1:
        return "holder", behind
    return any_target, move


NEMESIS = Clock()
