"""Pauses, kills and terminations by signals; they count only if their effect shows in /proc."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from holdfast.harness.core.json_value import Json
from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.halves import Half
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.processes import Process
from holdfast.nemesis.agent.request_errors import Evidence, FaultClaims, Refused
from holdfast.nemesis.agent.request_forms import FAULT, MISSING, NODES, Form

LONGEST_GRACE_NS = 5_000_000_000
"""The agent serves no other request meanwhile, and the driver waits 10 s for a response."""


class Stops:
    """The nodes that faults keep stopped; the last one to release a node resumes it.

    `CpuQuota` uses it from threads of its own.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._claims: FaultClaims[str] = FaultClaims()
        self._stopped: dict[str, dict[Process, None]] = {}
        self._lock = threading.RLock()

    def stop(self, fault: str, nodes: Iterable[str]) -> dict[str, str]:
        """Stops every process of the nodes; node -> state."""
        states = {}
        with self._lock:
            self._claims.claim(fault, nodes)
            for node in self._claims.of(fault):
                stopped = processes.stop(self._world.node(node).roots)
                self._stopped.setdefault(node, {}).update(dict.fromkeys(stopped))
                states[node] = worst(stopped.values())
        return states

    def release(self, fault: str) -> None:
        """Resumes the nodes of a fault that no other one stops."""
        with self._lock:
            for node in self._claims.release(fault):
                self.settle(node)

    def settle(self, node: str) -> None:
        """Resumes a node that no fault stops."""
        with self._lock:
            if not self._claims.claimants(node):
                processes.resume(self._stopped.pop(node, {}))

    def of(self, fault: str) -> tuple[str, ...]:
        """The nodes that a fault stops."""
        return self._claims.of(fault)

    def stopped(self, node: str) -> bool:
        """Whether a fault stops this node."""
        return bool(self._claims.claimants(node))


class Pauses:
    """Faults of kind `pause`. A node that is adopted again meanwhile runs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stops = world.part(Stops)

    def inject(self, fault: str, args: Mapping[str, Any]) -> Evidence:
        """Stops every process of `nodes`. Errors: Refused if none is alive."""
        states = self._stops.stop(fault, args["nodes"])
        if set(states.values()) == {"gone"}:
            raise Refused(f"pause {'+'.join(states)}: no live process; restart it first")
        return _evidence(states)

    def observe(self, fault: str) -> Evidence:
        """The present states of the nodes; effective while all of their threads are stopped."""
        living = {node: self._world.living(node) for node in self._stops.of(fault)}
        return _evidence(
            {n: worst(map(processes.state, processes_of)) for n, processes_of in living.items()}
        )

    def heal(self, fault: str) -> Evidence:
        """Resumes nodes that no other fault stops; returns the states before."""
        evidence = self.observe(fault)
        self._stops.release(fault)
        return evidence

    def settle(self, node: str) -> None:
        """Resumes a node that no fault stops."""
        self._stops.settle(node)


class Kills:
    """Faults of kind `kill`. The driver heals them: it restarts and adopts the node."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._claims: FaultClaims[str] = FaultClaims()
        self._killed: dict[str, dict[str, dict[str, str]]] = {}

    def inject(self, fault: str, args: Mapping[str, Any]) -> Evidence:
        """Kills every process of `nodes` and waits until they have exited. Errors: Refused."""
        self.claim("kill", fault, args["nodes"])
        return self.note(
            fault, {node: processes.end(self._world.node(node).roots) for node in args["nodes"]}
        )

    def claim(self, what: str, fault: str, nodes: Iterable[str]) -> None:
        """Keeps the nodes from being restarted before this fault is healed. Errors: Refused."""
        if not any(self._world.living(node) for node in nodes):
            raise Refused(f"{what} {'+'.join(nodes)}: no live process; restart it first")
        self._claims.claim(fault, nodes)

    def note(self, fault: str, ended: Mapping[str, Mapping[Process, str]]) -> Evidence:
        """Records the last states of the processes of each node."""
        self._killed[fault] = {
            node: {str(process.pid): state for process, state in states.items()}
            for node, states in ended.items()
        }
        return self.observe(fault)

    def observe(self, fault: str) -> Evidence:
        """Killed processes: node -> pid -> last state; effective if all have exited."""
        killed = self._killed.get(fault, {})
        states = [state for node in killed.values() for state in node.values()]
        return {"effective": bool(states) and set(states) == {"gone"}, "killed": killed}

    def heal(self, fault: str) -> Evidence:
        """Returns the nodes to `restart`: those that no other fault keeps killed."""
        evidence = self.observe(fault)
        nodes = self._claims.release(fault)
        self._killed.pop(fault, None)
        due = [n for n in nodes if not self._claims.claimants(n) and not self._world.living(n)]
        return {**evidence, "restart": due}

    def settle(self, node: str) -> None:
        """Nothing: a restarted node is not killed again."""


class Terminations:
    """Faults of kind `terminate`. They heal as kills do; a node may have faults of both kinds."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kills = world.part(Kills)
        self._seen: dict[str, Evidence] = {}

    def inject(self, fault: str, args: Mapping[str, Any]) -> Evidence:
        """SIGTERM to all of `nodes` at once; SIGKILL to what runs after `grace_ns`. Errors:
        Refused."""
        nodes = args["nodes"]
        self._kills.claim("terminate", fault, nodes)
        roots = {node: self._world.node(node).roots for node in nodes}
        living = {node: self._world.living(node) for node in nodes}
        took_ns = processes.terminate(
            chain.from_iterable(roots.values()),
            chain.from_iterable(living.values()),
            min(args["grace_ns"], LONGEST_GRACE_NS),
        )
        ended: dict[str, dict[Process, str]] = {}
        shutdown: dict[str, Json] = {}
        forced: list[Json] = []
        for node, running in living.items():
            late = [process for process in running if process not in took_ns]
            # A process that outlives its parent is no descendant of the roots any more.
            ended[node] = dict.fromkeys(running, "gone") | processes.end([*roots[node], *late])
            if late:
                forced.append(node)
            elif running:
                shutdown[node] = max(took_ns[process] for process in running)
        ways = [way for way, nodes in (("shut down", shutdown), ("killed", forced)) if nodes]
        self._seen[fault] = {
            "shutdown_ns": shutdown,
            "grace_exceeded": forced,
            "did": " or ".join(ways),
        }
        return {**self._kills.note(fault, ended), **self._seen[fault]}

    def observe(self, fault: str) -> Evidence:
        """As of a kill; with the time to shut down per node, and the nodes that needed SIGKILL."""
        return {**self._kills.observe(fault), **self._seen.get(fault, {})}

    def heal(self, fault: str) -> Evidence:
        """As of a kill."""
        return {**self._kills.heal(fault), **self._seen.pop(fault, {})}

    def settle(self, node: str) -> None:
        """Nothing: a restarted node is not terminated again."""


def worst(states: Iterable[str]) -> str:
    """`T` if all processes are stopped, a running one's state if not, `gone` if there are none."""
    seen = set(states) - {"gone"}
    return min(seen - {"T"}, default="T" if seen else "gone")


def _evidence(states: Mapping[str, str]) -> Evidence:
    seen = set(states.values())
    return {"effective": "T" in seen and seen <= {"T", "gone"}, "states": dict(states)}


PAUSE = Half(
    request="pause",
    form=Form(
        says="SIGSTOP to all processes of the nodes; responds when every thread has stopped.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    make=Pauses,
)
KILL = Half(
    request="kill",
    form=Form(
        says="SIGKILL to all processes of the nodes; responds when they have exited.",
        takes={"fault": FAULT, "nodes": NODES},
    ),
    make=lambda world: world.part(Kills),
)
TERMINATE = Half(
    request="terminate",
    form=Form(
        says="SIGTERM to the main processes of the nodes; SIGKILL to all of their processes that"
        " run after `grace_ns`, 5 s at most; responds when they have exited.",
        takes={"fault": FAULT, "nodes": NODES, "grace_ns": ("whole nanoseconds", MISSING)},
    ),
    make=Terminations,
)
