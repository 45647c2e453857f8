"""The first thread that calls a chosen function of a program is held there, or all with it.

Models
    A slow step inside a server, at the place that matters: the expiry of leases, an election, a
    sync. Released binaries have no failpoints of their own; a pause of the whole process stops
    everything else too, and so shows other bugs.
    function  as `holdfast list functions BINARY` names it; the path of its package may be left out
              ("lease.(*lessor).findExpiredLeases")
    hold      thread (default): all other threads run on. all: the whole process stops there
    then      resume (default): the thread goes on at the heal. kill: the program is killed there,
              which is a crash at that function after the others have run on for a while
    The leader first, then any server, for 1.5 leases.
Needs
    failpoint: processes that the fault agent may trace (x86-64 Linux), and a program with names of
    functions: Go, stripped or not, or one with symbols. Not the simulator.
Heals
    The thread goes on, or the program is killed (`then=kill`) and started again. If the function
    was not called, the fault has no effect.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.harness.core.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.agent.tracing.failpoints import HOLDS, THENS
from holdfast.nemesis.node_fault import aimed
from holdfast.nemesis.options import one_of
from holdfast.nemesis.targets import resolve

PARAMS: dict[str, Callable[[str], object]] = {
    "function": str,
    "hold": one_of(*HOLDS),
    "then": one_of(*THENS),
}


class Failpoint:
    """Implements the port `Nemesis`. Options: target, function, hold, then, every, for, lease."""

    agent = ("holdfast.nemesis.agent.tracing.failpoints:FAILPOINT",)
    traits = Traits(kills_later=True, simulator=NOT_SIMULATED, pattern="pause")

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        faults = aimed("failpoint", rng, options, span_ns, PARAMS, lambda n, rng: "leader|one")
        if not options.get("function"):
            raise UsageError(
                "nemesis failpoint: option function: which one? holdfast list functions BINARY"
            )
        return faults

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the fault agent now. Errors: Unresolved (a LookupError), UsageError."""
        read.read("failpoint", fault.params, PARAMS)
        args = {
            "fault": fault.id,
            "nodes": resolve(fault.target, view, rng),
            "function": fault.params["function"],
            "hold": fault.params.get("hold", HOLDS[0]),
            "then": fault.params.get("then", THENS[0]),
        }
        return [Request(do="failpoint", args=args)]


NEMESIS = Failpoint()
