"""Limits of open files: a running process can open no further file, socket or connection."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from holdfast.harness.core.json_value import Json
from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.halves import Half
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.processes import Process
from holdfast.nemesis.agent.request_errors import Evidence, Refused
from holdfast.nemesis.agent.request_forms import FAULT, NODES, Form


@dataclass(frozen=True, kw_only=True, slots=True)
class _Limited:
    """A process with a lowered limit."""

    node: str
    process: Process
    limit: int


class OpenFiles:
    """Faults of kind `open-files`. A process that is started meanwhile has its usual limit."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._faults: dict[str, list[_Limited]] = {}
        self._exhausted: dict[str, set[str]] = {}
        self._usual: dict[Process, int] = {}
        """the limit of each limited process before the first of its faults"""

    def inject(self, fault: str, args: Mapping[str, Json]) -> Evidence:
        """Lowers the soft limits of every process of `nodes`. Errors: Refused."""
        nodes, spare = args["nodes"], args["spare"]
        assert isinstance(nodes, list) and isinstance(spare, int)
        made = self._faults[fault] = []
        self._exhausted[fault] = set()
        for node in nodes:
            for process in self._world.living(node):
                try:
                    lowest, now = lowest_free(process), _limits(process)
                except PermissionError as error:
                    self.heal(fault)
                    raise Refused(
                        f"open-files {node}: descriptors of process {process.pid} cannot be read:"
                        f" {error.strerror}; the agent needs CAP_SYS_PTRACE"
                    ) from error
                if lowest is None or now is None:
                    continue
                limit = min(lowest + spare, now[0])
                self._usual.setdefault(process, now[0])
                made.append(_Limited(node=node, process=process, limit=limit))
                _set(process, limit, now[1])
        if not made:
            raise Refused(f"open-files {'+'.join(nodes)}: no live process; restart it first")
        return self.observe(fault)

    def observe(self, fault: str) -> Evidence:
        """The limits; effective if on every node a process was seen without a free descriptor."""
        made = self._faults.get(fault, [])
        limits: dict[str, Json] = {}
        for one in made:
            lowest = lowest_free(one.process)
            now = _limits(one.process)
            if lowest is None or now is None:
                limits[str(one.process.pid)] = "gone"
                continue
            limits[str(one.process.pid)] = {"limit": now[0], "lowest free": lowest}
            # The kernel gives the lowest free descriptor, and none from the limit on.
            if now[0] == one.limit and lowest >= one.limit:
                self._exhausted[fault].add(one.node)
        nodes = {one.node for one in made}
        return {
            "effective": bool(nodes) and nodes == self._exhausted[fault],
            "limits": limits,
        }

    def heal(self, fault: str) -> Evidence:
        """Restores the limits, unless another fault lowered them since; `restart` names the nodes
        that have died."""
        evidence = self.observe(fault)
        others = [one for name, made in self._faults.items() if name != fault for one in made]
        made = self._faults.pop(fault, [])
        for one in made:
            still = [other.limit for other in others if other.process == one.process]
            usual = self._usual[one.process] if still else self._usual.pop(one.process)
            now = _limits(one.process)
            if now is not None:
                _set(one.process, min(still, default=usual), now[1])
        self._exhausted.pop(fault, None)
        nodes = dict.fromkeys(one.node for one in made)
        return {**evidence, "restart": [node for node in nodes if not self._world.living(node)]}

    def settle(self, node: str) -> None:
        """Nothing: a limit belongs to a process."""


def lowest_free(process: Process) -> int | None:
    """The descriptor that a process would get next, or None if it has exited.

    A thread that waits in accept(2) has reserved one, which /proc does not show: it gets one more
    connection. Errors: PermissionError.
    """
    if processes.state(process) == "gone":
        return None
    try:
        taken = {int(name) for name in os.listdir(f"/proc/{process.pid}/fd")}
    except PermissionError:
        raise
    except OSError:
        return None
    return next(number for number in range(len(taken) + 1) if number not in taken)


def _limits(process: Process) -> tuple[int, int] | None:
    """Soft and hard limit of a process, or None if it has exited."""
    with suppress(OSError):
        if processes.state(process) != "gone":
            return resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    return None


def _set(process: Process, soft: int, hard: int) -> None:
    """Errors: Refused if the kernel does not permit it."""
    try:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))
    except ProcessLookupError:
        return
    except OSError as error:
        raise Refused(f"open-files: process {process.pid}: {error.strerror}") from error


OPEN_FILES = Half(
    request="open-files",
    form=Form(
        says="Lowers the limit of open files of all processes of the nodes, so that each may open"
        " `spare` files more.",
        takes={"fault": FAULT, "nodes": NODES, "spare": ("a whole number", 0)},
    ),
    make=OpenFiles,
)
