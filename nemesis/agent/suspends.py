"""Suspended nodes: stopped by signals, with monotonic clocks that do not advance meanwhile.

So the processes of a virtual machine see its suspension, or its live migration: wall and boot time
have passed, monotonic time has not.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import closing

from holdfast.harness.core.json_value import Json
from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.absolute_waits import AbsoluteWaits
from holdfast.nemesis.agent.halves import Half
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.processes import Process
from holdfast.nemesis.agent.request_errors import Evidence, FaultClaims, Refused
from holdfast.nemesis.agent.request_forms import FAULT, NODES, Form
from holdfast.nemesis.agent.signals import Stops, worst
from holdfast.nemesis.agent.vdso import Patch

TRIES = 50
CLOCKS = (time.CLOCK_MONOTONIC, time.CLOCK_MONOTONIC_RAW, 6)
"""The clocks that do not advance; 6 is CLOCK_MONOTONIC_COARSE."""


class Suspends:
    """Faults of kind `suspend`. A node that is adopted again meanwhile runs, with a true clock."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stops = world.part(Stops)
        self._claims: FaultClaims[str] = FaultClaims()
        self._waits = AbsoluteWaits()
        self._since: dict[str, list[int]] = {}
        """suspended node -> its clocks when it was stopped, of `CLOCKS`"""
        self._frozen: dict[str, list[Process]] = {}
        self._targets: dict[str, list[str]] = {}

    def inject(self, fault: str, args: Mapping[str, Json]) -> Evidence:
        """Stops every process of `nodes`. Errors: Refused, Unpatchable, OSError."""
        nodes = args["nodes"]
        assert isinstance(nodes, list)
        if not any(self._world.living(node) for node in nodes):
            raise Refused(f"suspend {'+'.join(nodes)}: no live process; restart it first")
        self._targets[fault] = nodes
        self._stop(fault, nodes)
        self._claims.claim(fault, nodes)
        for node in nodes:
            # The first fault counts: those that overlap are one standstill.
            if node not in self._since:
                self._since[node] = _clocks()
                self._frozen[node] = self._world.living(node)
        return self.observe(fault)

    def observe(self, fault: str) -> Evidence:
        """States of the nodes; effective while all threads are stopped."""
        nodes = self._targets.get(fault, [])
        states = {n: worst(map(processes.state, self._world.living(n))) for n in nodes}
        seen = set(states.values())
        return {"effective": "T" in seen and seen <= {"T", "gone"}, "states": {**states}}

    def heal(self, fault: str) -> Evidence:
        """Puts the monotonic clocks back and resumes, unless another fault suspends the node too.

        Effective if the nodes were stopped until now, and the clocks in their own memory are then
        behind by the time of the standstill.
        """
        evidence = self.observe(fault)
        behind: dict[str, int] = {}
        right = True
        for node in self._claims.release(fault):
            if self._claims.claimants(node) or node not in self._since:
                continue
            since, frozen = self._since.pop(node), self._frozen.pop(node)
            stood_ns = min(now - then for now, then in zip(_clocks(), since, strict=True))
            for process in frozen:
                if processes.state(process) == "T":
                    by_ns = _put_back(process, stood_ns)
                    right = right and by_ns >= stood_ns > 0
                    behind[node] = min(by_ns, behind.get(node, by_ns))
        self._stops.release(fault)
        self._targets.pop(fault, None)
        effective = evidence["effective"] is True and right
        return {**evidence, "effective": effective, "monotonic_behind_ns": {**behind}}

    def settle(self, node: str) -> None:
        """Forgets a node's standstill: its new processes run."""
        self._since.pop(node, None)
        self._frozen.pop(node, None)

    def _stop(self, fault: str, nodes: Iterable[str]) -> None:
        """Stops nodes where no thread is about to read an unshifted clock. Errors: Refused."""
        nodes = list(nodes)
        for _ in range(TRIES):
            for process in self._living(nodes):
                self._install(process)
            self._stops.stop(fault, nodes)
            if all(map(_clear, self._living(nodes))):
                return
            self._stops.release(fault)
        raise Refused(
            f"suspend {'+'.join(nodes)}: a thread never left the kernel's clock functions"
        )

    def _install(self, process: Process) -> None:
        """Replaces a process's clock functions; nothing if it has exited."""
        try:
            with closing(Patch(process)) as patch:
                patch.install()
                self._waits.watch(process, patch)
        except (OSError, Refused):
            if processes.state(process) != "gone":
                raise

    def _living(self, nodes: Iterable[str]) -> list[Process]:
        return [process for node in nodes for process in self._world.living(node)]


def _clocks() -> list[int]:
    return [time.clock_gettime_ns(clock) for clock in CLOCKS]


def _clear(process: Process) -> bool:
    """Whether a stopped process will read the time by the replaced functions only."""
    try:
        with closing(Patch(process)) as patch:
            return patch.installed() and not patch.in_clock_functions()
    except (OSError, Refused):
        if processes.state(process) != "gone":
            raise
        return True


def _put_back(process: Process, by_ns: int) -> int:
    """Puts a stopped process's clocks back; by how much they are behind then."""
    try:
        with closing(Patch(process)) as patch:
            patch.stand_still(by_ns)
            return patch.standstill_ns()
    except (OSError, Refused):
        if processes.state(process) != "gone":
            raise
        return by_ns


SUSPEND = Half(
    request="suspend",
    form=Form(
        says="SIGSTOP to all processes of the nodes, as pause; the heal puts their monotonic clocks"
        " back by the time for which they were stopped, for good, before it resumes them.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    make=Suspends,
)
