"""A nemesis with an agent half of its own: it pins all processes of a node to one CPU."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence

from holdfast.harness.core.fault_traits import NOT_SIMULATED, Traits
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Fault, Request, View
from holdfast.nemesis import options as read
from holdfast.nemesis.agent.halves import Half
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.request_errors import Evidence
from holdfast.nemesis.agent.request_forms import FAULT, NODES, Form
from holdfast.nemesis.targets import resolve
from holdfast.nemesis.timetable import TIMING, slots


class OneCpu:
    """Pins the servers to one CPU. Options: every, for, lease."""

    traits = Traits(passes=True, leaves_running=True, simulator=NOT_SIMULATED)
    agent = ("PINNED",)

    def draw(self, rng: random.Random, options: Mapping[str, str], span_ns: int) -> Sequence[Fault]:
        """Faults for a run of `span_ns`. Errors: UsageError."""
        read.read("one-cpu", options, TIMING)
        return [
            Fault(id=f"o{n}", do="one-cpu", target="all", at_ns=at_ns, for_ns=for_ns)
            for n, (at_ns, for_ns) in enumerate(slots("one-cpu", rng, options, span_ns))
        ]

    def requests(self, fault: Fault, view: View, rng: random.Random) -> Sequence[Request]:
        """Requests to the fault agent. Errors: Unresolved (a LookupError)."""
        nodes = resolve(fault.target, view, rng)
        return [Request(do="pin", args={"fault": fault.id, "nodes": nodes})]


class Pins:
    """Faults of kind `one-cpu`, in the fault agent. Standard library only."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._before: dict[str, dict[int, set[int]]] = {}

    def inject(self, fault: str, args: Mapping[str, Json]) -> Evidence:
        """Pins every process of `nodes`."""
        nodes = args["nodes"]
        assert isinstance(nodes, list)
        pids = [process.pid for node in nodes for process in self._world.living(str(node))]
        self._before[fault] = {pid: os.sched_getaffinity(pid) for pid in pids}
        for pid, allowed in self._before[fault].items():
            os.sched_setaffinity(pid, {min(allowed)})
        return self.observe(fault)

    def observe(self, fault: str) -> Evidence:
        """Effective if the kernel lets each of them run on one CPU only."""
        pinned = [pid for pid in self._before[fault] if len(os.sched_getaffinity(pid)) == 1]
        return {"effective": bool(pinned), "pinned": len(pinned), "did": "pinned to one CPU"}

    def heal(self, fault: str) -> Evidence:
        """The CPUs that each had."""
        evidence = self.observe(fault)
        for pid, allowed in self._before.pop(fault).items():
            os.sched_setaffinity(pid, allowed)
        return evidence

    def settle(self, node: str) -> None:
        """Nothing: a process that is started again runs where it likes."""


PINNED = Half(
    request="pin",
    form=Form(
        says="Pins all processes of the nodes to one CPU.", takes={"fault": FAULT, "nodes": NODES}
    ),
    make=Pins,
)
ONE_CPU = OneCpu()
