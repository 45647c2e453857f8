"""Faults on virtual time: the requests of `nemesis/agent`, answered with evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.clusters.backends.sim.client_faults import Disturb, Order
from holdfast.clusters.backends.sim.disk_faults import FreezeWrite, TornWrite, wanted_dead
from holdfast.clusters.backends.sim.event_loop import NodeLoop
from holdfast.clusters.backends.sim.network import Link
from holdfast.clusters.backends.sim.node_clock import NodeSkew
from holdfast.clusters.backends.sim.operations import Restore
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import Json

if TYPE_CHECKING:
    from holdfast.clusters.backends.sim.backend import SimBackend

Evidence = dict[str, Json]
Args = Mapping[str, Any]


class SimAgent:
    """Injects, observes and heals. A fault is known by its id, and heals once."""

    def __init__(self, cluster: SimBackend) -> None:
        self._cluster = cluster
        self._active: dict[str, Active] = {}
        self._healed: dict[str, Evidence] = {}

    async def ask(self, do: str, **args: Any) -> dict[str, Any]:
        """One request: {"t_ns", "evidence"}. EnvironmentFailed where it cannot be met."""
        if do == "heal_all":
            evidence: Evidence = {fault: self._heal(fault) for fault in list(self._active)}
        elif do == "heal":
            evidence = self._heal(args["fault"])
        elif do == "observe":
            fault = args["fault"]
            active = self._active.get(fault)
            evidence = active.observe() if active else dict(self._healed[fault])
        elif do in KINDS:
            kind = KINDS[do](self._cluster, args)
            self._active[args["fault"]] = kind
            evidence = kind.observe()
        elif do in ("hello", "load", "adopt"):
            evidence = {}
        else:
            raise EnvironmentFailed(f"simulator: unknown request: {do}")
        return {"t_ns": self._cluster.engine.now_ns, "evidence": evidence}

    async def close(self) -> None:
        """Nothing is left to heal: the simulated world ends with its run."""

    def _heal(self, fault: str) -> Evidence:
        active = self._active.pop(fault, None)
        if active is not None:
            self._healed[fault] = active.heal(list(self._active.values()))
        return dict(self._healed[fault])


class CutFault:
    """A node no longer hears some addresses; each link counts its cuts and what they stop."""

    def __init__(self, cluster: SimBackend, args: Args) -> None:
        network = cluster.network
        self._links: dict[str, tuple[Link, int]] = {}
        for row in args["links"]:
            for address in row["from"]:
                link = network.link(network.name(address), row["node"])
                if f"{row['node']}<-{address}" not in self._links:
                    self._links[f"{row['node']}<-{address}"] = (link, link.dropped)
                    link.cuts += 1

    def observe(self) -> Evidence:
        """How many frames were stopped since; effective if there was one."""
        dropped = {name: link.dropped - before for name, (link, before) in self._links.items()}
        stopped = sum(dropped.values())
        return {"effective": stopped > 0, "dropped": stopped, "links": dropped}

    def heal(self, others: list[object]) -> Evidence:
        """Frames pass again."""
        for link, _ in self._links.values():
            link.cuts -= 1
        return self.observe()


class Slow:
    """Links on which every frame takes longer; each counts the frames that did."""

    def __init__(self, cluster: SimBackend, args: Args) -> None:
        network = self._network = cluster.network
        self._by_ns, self._jitter_ns = int(args["by_ns"]), int(args["jitter_ns"])
        self._links: dict[str, tuple[Link, int]] = {}
        for row in args["links"]:
            for address in row["from"]:
                link = network.link(network.name(address), row["node"])
                if f"{row['node']}<-{address}" not in self._links:
                    self._links[f"{row['node']}<-{address}"] = (link, link.slowed)
                    link.slow_ns += self._by_ns
                    link.jitter_ns += self._jitter_ns

    def observe(self) -> Evidence:
        """How many frames were slowed since; effective if there was one."""
        slowed = {name: link.slowed - before for name, (link, before) in self._links.items()}
        late = sum(slowed.values())
        return {"effective": late > 0, "slowed": late, "by_ns": self._by_ns, "links": slowed}

    def heal(self, others: list[Any]) -> Evidence:
        """Frames take as long as before. Those under way may still arrive late, and in order."""
        network, now_ns = self._network, self._network.engine.now_ns
        for link, _ in self._links.values():
            late_ns = now_ns + link.slow_ns + link.jitter_ns
            network.delayed_ns = max(network.delayed_ns, late_ns)
            link.slow_ns -= self._by_ns
            link.jitter_ns -= self._jitter_ns
        return self.observe()


class StopFault:
    """Nodes that stand still: between two callbacks, or inside their next send."""

    def __init__(self, cluster: SimBackend, args: Args, *, in_send: bool = False) -> None:
        self._in_send = in_send
        hosts = [(name, cluster.hosts[name].loop) for name in args["nodes"]]
        self._loops = {name: loop for name, loop in hosts if loop is not None}
        if not self._loops:
            do = "freeze" if in_send else "pause"
            raise EnvironmentFailed(f"{do} {'+'.join(args['nodes'])}: no live process")
        wanted = args.get("peers", ())
        peers = [name for name, host in cluster.hosts.items() if host.node.address in wanted]
        for loop in self._loops.values():
            loop.freeze(peers) if in_send else loop.stop()

    def observe(self) -> Evidence:
        """A pause is effective while every running node is stopped; a freeze, where a send came."""
        states = {
            name: "gone" if loop.dead else "T" if self._stopped(loop) else "S"
            for name, loop in self._loops.items()
        }
        seen = list(states.values())
        return {"effective": "T" in seen and (self._in_send or "S" not in seen), "states": states}

    def heal(self, others: list[object]) -> Evidence:
        """They go on; a send that was stopped leaves first."""
        evidence = self.observe()
        for loop in self._loops.values():
            if not loop.dead:
                loop.thaw() if self._in_send else loop.go()
        return evidence

    def _stopped(self, loop: NodeLoop) -> bool:
        return loop.frozen if self._in_send else bool(loop.stopped)


class Suspend(StopFault):
    """Nodes that stand still with their monotonic clocks; wall clocks go on."""

    def __init__(self, cluster: SimBackend, args: Args) -> None:
        self._in_send = False
        hosts = [(name, cluster.hosts[name].loop) for name in args["nodes"]]
        self._loops = {name: loop for name, loop in hosts if loop is not None}
        if not self._loops:
            raise EnvironmentFailed(f"suspend {'+'.join(args['nodes'])}: no live process")
        for loop in self._loops.values():
            loop.suspend()

    def heal(self, others: list[object]) -> Evidence:
        """They go on; says by how much their clocks were put back now."""
        evidence = self.observe()
        living = {name: loop for name, loop in self._loops.items() if not loop.dead}
        behind: dict[str, Json] = {name: loop.resumed() for name, loop in living.items()}
        return {**evidence, "monotonic_behind_ns": behind}


class Kill:
    """Processes that are gone; healing one names the nodes to start again."""

    def __init__(self, cluster: SimBackend, args: Args) -> None:
        self.nodes: list[str] = args["nodes"]
        self.wants_dead = self.nodes
        self._cluster = cluster
        self._killed = [name for name in self.nodes if cluster.hosts[name].alive]
        if not self._killed:
            raise EnvironmentFailed(f"kill {'+'.join(self.nodes)}: no live process")
        for name in self._killed:
            cluster.crash(name)

    def observe(self) -> Evidence:
        """What was killed."""
        return {"effective": True, "killed": {name: {"process": "gone"} for name in self._killed}}

    def heal(self, others: list[object]) -> Evidence:
        """Who is dead and whom no other fault wants dead."""
        wanted, hosts = wanted_dead(others), self._cluster.hosts
        due = [name for name in self.nodes if name not in wanted and not hosts[name].alive]
        return {**self.observe(), "restart": due}


class PowerFault(Kill):
    """Nodes that lose power. A simulated disk keeps what was synced, so this is what a kill is."""

    def __init__(self, cluster: SimBackend, args: Args) -> None:
        super().__init__(cluster, args)
        self._cut_ns = cluster.engine.now_ns

    def observe(self) -> Evidence:
        """What was killed, and when."""
        return {**super().observe(), "cut_ns": [self._cut_ns, self._cut_ns]}


class ClockFault:
    """Wall clocks that are moved; monotonic ones are left alone."""

    def __init__(self, cluster: SimBackend, args: Args) -> None:
        self._cluster = cluster
        self._fault = str(args["fault"])
        self._nodes: list[str] = args["nodes"]
        self._skew = NodeSkew(
            since_ns=cluster.engine.now_ns,
            step_ns=args.get("step_ns", 0),
            ppm=args.get("rate_ppm", 0),
            strobe_ns=args.get("strobe_ns", 0),
        )
        for name in self._nodes:
            cluster.hosts[name].clock.skew(self._fault, self._skew)

    def observe(self) -> Evidence:
        """By how much each clock is off now; effective where a process was there to read it."""
        hosts = self._cluster.hosts
        now_ns = self._cluster.engine.now_ns
        return {
            "effective": any(hosts[name].alive for name in self._nodes),
            "offset_ns": {name: self._skew.offset_ns(now_ns) for name in self._nodes},
        }

    def heal(self, others: list[object]) -> Evidence:
        """The true clock again, at once."""
        evidence = self.observe()
        for name in self._nodes:
            self._cluster.hosts[name].clock.restore(self._fault)
        return evidence


def _on_links(cluster: SimBackend, args: Args) -> Slow:
    """A fault of links, where the simulator has the same."""
    if args["act"] != "delay":
        raise EnvironmentFailed(f"simulator: no act={args['act']} on links")
    return Slow(cluster, args)


def _at_a_call(cluster: SimBackend, args: Args) -> StopFault | FreezeWrite | TornWrite:
    """A fault at a system call, where the simulator has the same."""
    act, call = args["act"], args["call"]
    usual = args.get("point", "before") == "before" and args.get("who", "each") == "each"
    usual &= not args.get("of")
    if args["first"] == 1 and usual and not args.get("file"):
        if (act, call) == ("freeze", "send"):
            return StopFault(cluster, args, in_send=True)
        if act == "freeze" and call in ("disk", "write"):
            return FreezeWrite(cluster, args)
        if (act, call) == ("tear", "write"):
            return TornWrite(cluster, args)
    raise EnvironmentFailed(f"simulator: no act={act} at call={call}, or not with these options")


Active = (
    CutFault
    | Slow
    | StopFault
    | FreezeWrite
    | Kill
    | TornWrite
    | ClockFault
    | Disturb
    | Order
    | Restore
)
KINDS: dict[str, Callable[[SimBackend, Args], Active]] = {
    "cut": CutFault,
    "link": _on_links,
    "pause": StopFault,
    "suspend": Suspend,
    "freeze": partial(StopFault, in_send=True),
    "freeze-write": FreezeWrite,
    "syscall": _at_a_call,
    "kill": Kill,
    "power": PowerFault,
    "torn-write": TornWrite,
    "set_clock": ClockFault,
    "disturb": Disturb,
    "order": Order,
    "operate": Restore,
}
