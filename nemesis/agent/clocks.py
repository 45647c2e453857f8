"""Clock faults: the wall clock of every process of a node, shifted by the sum of active faults."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, TypeVar

from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.halves import Half
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.processes import Process
from holdfast.nemesis.agent.request_errors import Evidence, FaultClaims, Refused
from holdfast.nemesis.agent.request_forms import FAULT, NODES, Form
from holdfast.nemesis.agent.vdso import Patch, Skew, Unpatchable, offset_ns

Result = TypeVar("Result")

YEAR_NS = 365 * 24 * 3600 * 1_000_000_000
MOST_STEP_NS = 10 * YEAR_NS
LEAST_PPM, MOST_PPM = -999_999, 5_000_000
LEAST_STROBE_NS = 1_000_000


class ClockFaults:
    """Faults of kind `set_clock`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._claims: FaultClaims[str] = FaultClaims()
        self._skews: dict[str, Skew] = {}
        self._patched: dict[str, dict[Process, None]] = {}

    def inject(self, fault: str, args: Mapping[str, Any]) -> Evidence:
        """Shifts the clocks of `nodes`. Errors: Refused, Unpatchable."""
        nodes = args["nodes"]
        skew = _skew(args)
        if not any(self._world.living(node) for node in nodes):
            raise Refused(f"set_clock {'+'.join(nodes)}: no live process; restart it first")
        self._skews[fault] = skew
        self._claims.claim(fault, nodes)
        for node in nodes:
            self.settle(node)
        return self._evidence(fault, nodes)

    def observe(self, fault: str) -> Evidence:
        """The offset of each process, from its own memory; a process that has called exec meanwhile
        gets its skew again first."""
        for node in self._claims.of(fault):
            self.settle(node)
        return self._evidence(fault, self._claims.of(fault))

    def heal(self, fault: str) -> Evidence:
        """Removes this fault's part from the clocks; returns the offsets before and after."""
        nodes = self._claims.of(fault)
        evidence = self._evidence(fault, nodes)
        self._claims.release(fault)
        for node in nodes:
            self.settle(node)
        self._skews.pop(fault, None)
        return {**evidence, "after_ns": self._offsets(nodes)}

    def settle(self, node: str) -> None:
        """Sets every process of the node to its claimed skews, or to the true clock."""
        skews = [self._skews[fault] for fault in self._claims.claimants(node)]
        patched = self._patched.setdefault(node, {})
        living = self._world.living(node) if node in self._world.nodes else []
        if skews:
            for process in dict.fromkeys([*patched, *living]):
                patched[process] = None
                _patch(process, lambda patch: patch.set(skews))
        elif patched:
            for process in dict.fromkeys([*patched, *living]):
                _patch(process, Patch.restore)
            patched.clear()

    def _read(self, node: str) -> dict[int, list[Skew]]:
        living = self._world.living(node)
        skews_of = {process.pid: _patch(process, Patch.skews) for process in living}
        return {pid: skews for pid, skews in skews_of.items() if skews is not None}

    def _offsets(self, nodes: tuple[str, ...]) -> dict[str, dict[str, int]]:
        return {
            node: {str(pid): offset_ns(skews) for pid, skews in self._read(node).items()}
            for node in nodes
        }

    def _evidence(self, fault: str, nodes: tuple[str, ...]) -> Evidence:
        read = {node: self._read(node) for node in nodes}
        every = [skews for node in read.values() for skews in node.values()]
        return {
            "effective": bool(every) and all(self._skews[fault] in skews for skews in every),
            "offset_ns": {
                node: {str(pid): offset_ns(skews) for pid, skews in skews_of.items()}
                for node, skews_of in read.items()
            },
        }


def _skew(args: Mapping[str, Any]) -> Skew:
    step, ppm, strobe = args["step_ns"], args["rate_ppm"], args["strobe_ns"]
    if not step and not ppm:
        raise Refused("set_clock: missing step_ns or rate_ppm")
    if abs(step) > MOST_STEP_NS:
        raise Refused(
            f"set_clock: invalid step_ns {step}: expected at most 10 years ({MOST_STEP_NS})"
        )
    if not LEAST_PPM <= ppm <= MOST_PPM:
        raise Refused(f"set_clock: invalid rate_ppm {ppm}: expected {LEAST_PPM} to {MOST_PPM}")
    if strobe and strobe < LEAST_STROBE_NS:
        raise Refused(
            f"set_clock: invalid strobe_ns {strobe}: expected >= {LEAST_STROBE_NS} (1 ms)"
        )
    now = time.clock_gettime_ns(time.CLOCK_REALTIME)
    return Skew(base_ns=now, step_ns=step, ppm=ppm, strobe_ns=strobe)


def _patch(process: Process, act: Callable[[Patch], Result]) -> Result | None:
    """Patches a process's vDSO; None if the process exited meanwhile."""
    try:
        with closing(Patch(process)) as patch:
            return act(patch)
    except (Unpatchable, OSError):
        if not processes.thread_states(process):
            return None
        raise


CLOCKS = Half(
    request="set_clock",
    form=Form(
        says="Moves the wall clock of all processes of the nodes, never the monotonic one: by a"
        " step, a rate, or a step that toggles every strobe_ns.",
        takes={
            "fault": FAULT,
            "nodes": NODES,
            "step_ns": ("whole nanoseconds", 0),
            "rate_ppm": ("whole parts per million", 0),
            "strobe_ns": ("whole nanoseconds", 0),
        },
    ),
    make=ClockFaults,
)
