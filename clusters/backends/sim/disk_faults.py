"""Faults inside a write to a disk: a node that stops there, and one that dies there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.clusters.backends.sim.event_loop import NodeLoop
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.seeds import stream

if TYPE_CHECKING:
    from holdfast.clusters.backends.sim.backend import Host, SimBackend

Keep = Callable[[], None]
Tear = Callable[[float], None]


def _armed(cluster: SimBackend, do: str, args: Mapping[str, Any]) -> list[Host]:
    hosts = [cluster.hosts[name] for name in args["nodes"]]
    if not any(host.alive for host in hosts):
        raise EnvironmentFailed(f"{do} {'+'.join(args['nodes'])}: no live process")
    return [host for host in hosts if host.alive]


def _stand_still(host: Host) -> NodeLoop:
    """Stop in the middle of this callback: what it still sends waits."""
    loop = host.loop
    assert loop is not None, "only a living node writes"
    if loop.held is None:
        loop.held = []
    loop.stop()
    return loop


class FreezeWrite:
    """Nodes that stand still inside their next write, which is done when they go on."""

    def __init__(self, cluster: SimBackend, args: Mapping[str, Json]) -> None:
        self._hosts = _armed(cluster, "freeze-write", args)
        self._traps: dict[str, Any] = {}
        self._inside: dict[str, tuple[NodeLoop, Keep]] = {}
        for host in self._hosts:
            host.trap = self._traps[host.node.name] = self._trap(host)

    def _trap(self, host: Host) -> Callable[[Keep, Tear], None]:
        def trap(keep: Keep, tear: Tear) -> None:
            self._inside[host.node.name] = (_stand_still(host), keep)

        return trap

    def observe(self) -> dict[str, Any]:
        """Effective where a write came."""
        states = {
            host.node.name: "S"
            if host.node.name not in self._inside
            else "gone"
            if self._inside[host.node.name][0].dead
            else "T"
            for host in self._hosts
        }
        return {"effective": bool(self._inside), "states": states}

    def heal(self, others: list[Any]) -> dict[str, Json]:
        """The write is done, and they go on; what a crash took meanwhile is gone."""
        evidence = self.observe()
        for host in self._hosts:
            if host.trap is self._traps[host.node.name]:
                host.trap = None
        for loop, keep in self._inside.values():
            if not loop.dead:
                keep()
                loop.go()
        return evidence


class TornWrite:
    """Nodes that die inside their next write; of that a part is durable."""

    def __init__(self, cluster: SimBackend, args: Mapping[str, Json]) -> None:
        self.wants_dead: list[str] = []
        self._cluster = cluster
        self._hosts = _armed(cluster, "torn-write", args)
        self._traps: dict[str, Any] = {}
        self._torn: dict[str, float] = {}
        self._chance = stream(cluster.place.seed, "torn-write", str(args["fault"])).random
        for host in self._hosts:
            host.trap = self._traps[host.node.name] = self._trap(host)

    def _trap(self, host: Host) -> Callable[[Keep, Tear], None]:
        def trap(keep: Keep, tear: Tear) -> None:
            name = host.node.name
            self._torn[name] = share = self._chance()
            self.wants_dead.append(name)
            tear(share)
            loop = _stand_still(host)

            def die() -> None:
                if not loop.dead:
                    self._cluster.crash(name)

            self._cluster.engine.later(0, die)

        return trap

    def observe(self) -> dict[str, Json]:
        """Who died, and how much of the write was durable; effective where a write came."""
        shares = {name: round(share, 3) for name, share in self._torn.items()}
        return {"effective": bool(shares), "kept": shares}

    def heal(self, others: list[Any]) -> dict[str, Json]:
        """Who is dead and whom no other fault wants dead."""
        for host in self._hosts:
            if host.trap is self._traps[host.node.name]:
                host.trap = None
        wanted, hosts = wanted_dead(others), self._cluster.hosts
        due = [name for name in self.wants_dead if name not in wanted and not hosts[name].alive]
        return {**self.observe(), "restart": due}


def wanted_dead(faults: Sequence[Any]) -> list[str]:
    """Nodes that some fault keeps dead until it is healed."""
    return [name for fault in faults for name in getattr(fault, "wants_dead", ())]
