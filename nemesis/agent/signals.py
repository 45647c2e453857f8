"""Pauses and kills: what signals do to the processes of a node, seen in /proc before it counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.nemesis.agent import processes
from holdfast.nemesis.agent.fault_claims import Claims
from holdfast.nemesis.agent.hosted_nodes import World
from holdfast.nemesis.agent.processes import Process
from holdfast.nemesis.agent.request_errors import Evidence, Refused


class Pauses:
    """The faults of kind `pause`. A node adopted anew meanwhile runs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._claims: Claims[str] = Claims()
        self._stopped: dict[str, dict[Process, None]] = {}

    def inject(self, fault: str, args: Mapping[str, Any]) -> Evidence:
        """Stops every process of `nodes`. Errors: Refused where none of them lives."""
        states = {}
        self._claims.claim(fault, args["nodes"])
        for node in self._claims.of(fault):
            stopped = processes.stop(self._world.node(node).roots)
            self._stopped.setdefault(node, {}).update(dict.fromkeys(stopped))
            states[node] = _worst(stopped.values())
        if set(states.values()) == {"gone"}:
            raise Refused(f"pause {'+'.join(states)}: no process of it is alive; restart it first")
        return _evidence(states)

    def observe(self, fault: str) -> Evidence:
        """The states of the nodes now; it bites while all of their threads are stopped."""
        living = {node: self._world.living(node) for node in self._claims.of(fault)}
        return _evidence({n: _worst(map(processes.state, found)) for n, found in living.items()})

    def heal(self, fault: str) -> Evidence:
        """Continues the nodes that no other fault wants stopped; shows the states before."""
        evidence = self.observe(fault)
        for node in self._claims.release(fault):
            self.settle(node)
        return evidence

    def settle(self, node: str) -> None:
        """Continues a node that no fault wants stopped."""
        if not self._claims.claimants(node):
            processes.resume(self._stopped.pop(node, {}))


class Kills:
    """The faults of kind `kill`. Healing one is the driver's: it restarts and adopts anew."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._claims: Claims[str] = Claims()
        self._killed: dict[str, dict[str, dict[str, str]]] = {}

    def inject(self, fault: str, args: Mapping[str, Any]) -> Evidence:
        """Ends every process of `nodes` and waits until they are gone. Errors: Refused."""
        nodes = args["nodes"]
        if not any(self._world.living(node) for node in nodes):
            raise Refused(f"kill {'+'.join(nodes)}: no process of it is alive; restart it first")
        self._claims.claim(fault, nodes)
        self._killed[fault] = {
            node: {
                str(process.pid): state
                for process, state in processes.end(self._world.node(node).roots).items()
            }
            for node in nodes
        }
        return self.observe(fault)

    def observe(self, fault: str) -> Evidence:
        """What was killed: node -> pid -> last state seen; it bit if all are gone."""
        killed = self._killed.get(fault, {})
        states = [state for node in killed.values() for state in node.values()]
        return {"bit": bool(states) and set(states) == {"gone"}, "killed": killed}

    def heal(self, fault: str) -> Evidence:
        """Names the nodes to `restart`: dead, and no other fault wants them dead."""
        evidence = self.observe(fault)
        nodes = self._claims.release(fault)
        self._killed.pop(fault, None)
        due = [n for n in nodes if not self._claims.claimants(n) and not self._world.living(n)]
        return {**evidence, "restart": due}

    def settle(self, node: str) -> None:
        """Nothing: a node that was started again lives, whoever killed it before."""


def _worst(states: Iterable[str]) -> str:
    """`T` if all processes are stopped, a running one's state if not, `gone` if there are none."""
    seen = set(states) - {"gone"}
    return min(seen - {"T"}, default="T" if seen else "gone")


def _evidence(states: Mapping[str, str]) -> Evidence:
    seen = set(states.values())
    return {"bit": "T" in seen and seen <= {"T", "gone"}, "states": dict(states)}
