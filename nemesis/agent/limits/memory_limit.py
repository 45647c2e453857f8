"""Limits of memory: the processes of a node get no more than a few bytes, or are killed.

The kernel first reclaims what it can of their memory (file pages), and then kills one of them: the
OOM kill. Both are counted by the control group.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.harness.core.json_value import Json
from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.halves import Half
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.limits import memory_groups
from holdfast.nemesis.agent.limits.memory_groups import Group
from holdfast.nemesis.agent.processes import Process
from holdfast.nemesis.agent.request_errors import Evidence, Refused
from holdfast.nemesis.agent.request_forms import FAULT, NODES, Form

LIFT = ("-S", "-P", "-m", "holdfast.nemesis.agent.limits.lift_at_exit")
LABEL_VARIABLE = "HOLDFAST_RUN"


@dataclass(slots=True)
class _Limited:
    """A limited node: its group, the limit, and the processes it had."""

    group: Group
    limit: int
    members: list[Process]
    guard: subprocess.Popen[bytes]


@dataclass(slots=True)
class _Fault:
    nodes: dict[str, _Limited] = field(default_factory=dict)


class MemoryLimit:
    """Faults of kind `memory-limit`. A process that is started meanwhile has no limit."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._faults: dict[str, _Fault] = {}
        self._made = 0

    def inject(self, fault: str, args: Mapping[str, Json]) -> Evidence:
        """Moves every process of `nodes` into a group with a limit. Errors: Refused, OSError."""
        nodes, spare = args["nodes"], args["spare"]
        assert isinstance(nodes, list) and isinstance(spare, int)
        version = memory_groups.version()
        made = self._faults[fault] = _Fault()
        limited = {node for other in self._faults.values() for node in other.nodes}
        for node in nodes:
            if node in limited:
                raise Refused(f"memory-limit: {node} has a limit already; heal that first")
            members = self._world.living(node)
            if not members:
                continue
            self._made += 1
            label = os.environ.get(LABEL_VARIABLE, str(os.getpid()))
            group = Group(f"{label}-{os.getpid()}-{self._made}", version)
            limit = group.open(members, spare)
            made.nodes[node] = _Limited(group, limit, members, _guard(group))
        if not made.nodes:
            raise Refused(f"memory-limit {'+'.join(nodes)}: no live process; restart it first")
        return self.observe(fault)

    def observe(self, fault: str) -> Evidence:
        """The counters of each group; effective if on every node the limit was reached."""
        made = self._faults.get(fault, _Fault()).nodes
        counts = {node: one.group.counts() for node, one in made.items()}
        gone = {
            node: [p.pid for p in one.members if processes.state(p) == "gone"]
            for node, one in made.items()
        }
        # A kill is one that the group counted, and of which a process is gone.
        kills = {node: count.killed if gone[node] else 0 for node, count in counts.items()}
        return {
            "effective": bool(made)
            and all(count.refused or kills[node] for node, count in counts.items()),
            "oom_kills": {**kills},
            "limit_reached": {node: count.refused for node, count in counts.items()},
            "limit_bytes": {node: one.limit for node, one in made.items()},
            "exited": [pid for pids in gone.values() for pid in pids],
        }

    def heal(self, fault: str) -> Evidence:
        """The processes are back in the groups that they came from; `restart` names the nodes that
        have died, which are killed as a whole. Errors: OSError."""
        evidence = self.observe(fault)
        made = self._faults.pop(fault, _Fault())
        dead = [node for node in made.nodes if not self._world.living(node)]
        for node, one in made.nodes.items():
            if node in dead:
                processes.end(one.members)
            one.group.close()
            assert one.guard.stdin is not None
            one.guard.stdin.close()
            one.guard.wait()
        return {**evidence, "restart": [*dead]}

    def settle(self, node: str) -> None:
        """Nothing: a process that is started again is in the usual group."""


def _guard(group: Group) -> subprocess.Popen[bytes]:
    """The process that removes a group if this agent is killed."""
    return subprocess.Popen(
        [sys.executable, *LIFT, str(group.path), str(group.home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


MEMORY_LIMIT = Half(
    request="memory-limit",
    form=Form(
        says="Moves all processes of the nodes into a control group, in which they get `spare`"
        " bytes more than what is charged there. The kernel reclaims, and kills if it has to.",
        takes={"fault": FAULT, "nodes": NODES, "spare": ("a whole number", 0)},
    ),
    make=MemoryLimit,
)
