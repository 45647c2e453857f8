"""The nodes of a simulated run and what runs on them: the same servers, clients and resource."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.clusters.backends.sim.event_loop import NodeLoop
from holdfast.clusters.backends.sim.fault_agent import SimAgent
from holdfast.clusters.backends.sim.network import Network
from holdfast.clusters.backends.sim.node_clock import MILLION, NodeClock
from holdfast.clusters.backends.sim.options import Knobs
from holdfast.clusters.backends.sim.recorder import Holding, MemoryRecorder
from holdfast.clusters.backends.sim.resource import ResourceLink
from holdfast.clusters.backends.sim.resource import serve as serve_resource
from holdfast.clusters.backends.sim.scheduler import Engine
from holdfast.harness.client.context import Context, Parts
from holdfast.harness.client.guard import Guard
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import NO_TOKEN, Op
from holdfast.harness.core.ports import ClientSetup, Node, Place, Simulated, System
from holdfast.harness.core.seeds import stream
from holdfast.harness.plans.plan import Plan, lock_names
from holdfast.harness.recording.phase import END, GO, PREPARE, PROBE
from holdfast.harness.recording.segments import DIED_ON_PURPOSE, DONE, IDLE, OPENED, READY

GENERATION = 1000
"""A client started again is a new logical client: its process number grows by so much."""
REVIVE_NS = 100 * MILLISECOND
"""An owner that died on purpose is back so much later."""


class Died(BaseException):
    """Raised where a client's process ends itself; nothing of it runs any more."""


@dataclass(slots=True)
class Host:
    """One node: what outlives its process (clock, disk), and the loop of its present boot."""

    node: Node
    clock: NodeClock
    engine: Engine
    sync_ns: Callable[[], int] | None
    loop: NodeLoop | None = None
    boots: int = 0
    state: int = OPENED
    kept: Any = None
    last_words: str = ""
    recorder: MemoryRecorder | None = None
    guard: Guard | None = None
    """of the calls under way, where the node is a client"""
    trap: Callable[[Callable[[], None], Callable[[float], None]], None] | None = None
    """what a fault does to the next write to this node's disk, instead of what it does itself"""
    go: asyncio.Event = field(default_factory=asyncio.Event)
    end: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def alive(self) -> bool:
        """Whether a process runs here."""
        return self.loop is not None

    def mono_ns(self) -> int:
        """The node's monotonic clock."""
        clock = self.clock
        return self.engine.now_ns * clock.rate // MILLION + clock.offset_ns

    def wall_ns(self) -> int:
        """The node's wall clock."""
        return self.clock.wall_ns(self.engine.now_ns)

    def run_ns(self) -> int:
        """The clock that all processes of a run share: true time."""
        return self.engine.now_ns

    def say(self, text: str) -> None:
        """One line of the process's log; the last one is kept."""
        self.last_words = text

    def sync(self, keep: Callable[[], None], tear: Callable[[float], None]) -> None:
        """Makes something durable, for which the node may stand still for a while.

        tear   makes that share of it durable, 0 to 1, where the write is torn by a crash
        """
        trap, self.trap = self.trap, None
        if trap is not None and self.loop is not None:
            trap(keep, tear)
            return
        wait_ns = self.sync_ns() if self.sync_ns is not None else 0
        if wait_ns and self.loop is not None:
            self.loop.stall(wait_ns, keep)
        else:
            keep()


@dataclass(slots=True)
class SimCluster:
    """What `harness.cluster.Cluster` is on hosts. `problems`: why the history may say too little.

    entries   names to load, as in the manifest
    """

    plan: Plan
    engine: Engine
    network: Network
    knobs: Knobs
    system: System
    entries: Mapping[str, str]
    options: Mapping[str, Mapping[str, str]]
    hosts: dict[str, Host] = field(default_factory=dict)
    recorders: list[MemoryRecorder] = field(default_factory=list)
    holding: Holding = field(default_factory=Holding)
    problems: list[str] = field(default_factory=list)
    resting: Callable[[], set[str]] = set
    phase: int = PREPARE
    _graves: list[asyncio.Task[Any]] = field(default_factory=list)
    _agent: SimAgent | None = None

    @property
    def nodes(self) -> Sequence[Node]:
        """All nodes, as deployed."""
        return [host.node for host in self.hosts.values()]

    @property
    def agent(self) -> SimAgent:
        """What does faults here."""
        if self._agent is None:
            self._agent = SimAgent(self)
        return self._agent

    def named(self, role: str) -> list[Host]:
        """The hosts of one role."""
        return [host for host in self.hosts.values() if host.node.role == role]

    def place_nodes(self) -> None:
        """Every node gets an address and clocks of its own."""
        wanted = [
            *((f"n{n}", "server") for n in range(1, self.plan.nodes + 1)),
            ("resource", "resource"),
            *((f"c{n}", "client") for n in range(1, self.plan.clients + 1)),
            ("probe", "probe"),
        ]
        for number, (name, role) in enumerate(wanted, 1):
            node = Node(name=name, role=role, address=f"10.77.1.{number}")
            rng = stream(self.plan.seed, "node", name)
            most = self.knobs.drift_ppm
            clock = NodeClock(rng.randrange(10**12), rng.randint(-most, most))
            disk = stream(self.plan.seed, "disk", name)
            sync = (
                partial(_sync_ns, disk.random, self.knobs.sync_ns) if self.knobs.sync_ns else None
            )
            self.hosts[name] = Host(node=node, clock=clock, engine=self.engine, sync_ns=sync)
            self.network.place(name, node.address, server=role == "server")

    async def refresh(self) -> None:
        """Nothing to fetch: the history lies in this process."""

    async def leader(self) -> str | None:
        """Who the system says leads it now; the question takes its way over the network."""
        servers = [host.node for host in self.named("server")]
        return await self.system.leader(servers, self.options["system"])

    async def start(self, name: str) -> None:
        """As `boot`; on hosts it takes its time."""
        self.boot(name)

    def boot(self, name: str) -> None:
        """Start what runs on a node, or start it again; a client gets new process numbers."""
        host = self.hosts[name]
        assert host.loop is None, f"{name} runs already"
        host.boots += 1
        host.state = OPENED
        host.go, host.end = asyncio.Event(), asyncio.Event()
        loop = NodeLoop(name, self.engine, host.clock, self.network)
        host.loop = loop
        work = {"server": self._server, "resource": self._resource}.get(
            host.node.role, self._client
        )(host)
        loop.call_soon(self._main, host, loop, work)

    def _main(self, host: Host, loop: NodeLoop, work: Coroutine[Any, Any, None]) -> None:
        task = loop.create_task(work)

        def ended(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if loop.dead or isinstance(error, Died):
                return
            self.crash(host.node.name)
            if error is not None or host.state < IDLE:
                why = f"{type(error).__name__}: {error}" if error else host.last_words
                self.problems.append(f"{host.node.name} exited unexpectedly: {why}")

        task.add_done_callback(ended)

    def crash(self, name: str) -> None:
        """The process of a node is gone, this instant; what it had not synced is lost."""
        host = self.hosts[name]
        loop = host.loop
        if loop is None:
            return
        host.loop = None
        loop.dead = True
        # What dies is kept until the run is over: to tear up its coroutines would run their code.
        self._graves += asyncio.all_tasks(loop)  # type: ignore[arg-type]
        if host.recorder is not None and host.node.role != "resource":
            host.recorder.dead = True
        self.network.crash(name)

    def bury(self) -> None:
        """When all is over and on record: end every coroutine there is, dead or alive."""
        for name in self.hosts:
            self.crash(name)
        for recorder in self.recorders:
            recorder.dead = True
        for task in self._graves:
            quietly_end(task.get_coro())
        self._graves.clear()

    def to_phase(self, phase: int) -> None:
        """Tell every client how far the run is."""
        self.phase = phase
        for host in self.hosts.values():
            if host.loop is None:
                continue
            if phase >= (PROBE if host.node.role == "probe" else GO):
                host.loop.call_soon(host.go.set)
            if phase == END:
                host.loop.call_soon(host.end.set)

    # What runs on a node

    def _server(self, host: Host) -> Coroutine[Any, Any, None]:
        work: Coroutine[Any, Any, None] = load(self.entries["simulated"])(
            self._server_config(host.node), host
        )
        return work

    def _server_config(self, node: Node) -> Mapping[str, Any]:
        options = self.options["system"]
        if isinstance(self.system, Simulated):
            return self.system.simulated_config(node, options)
        place = Place(run_id="sim", run_dir=Path(), shared=(Path(),), label="", seed=self.plan.seed)
        servers = [other.node for other in self.named("server")]
        command = self.system.command(node, servers, place, options)
        config: Mapping[str, Any] = json.loads(command.argv[-1])
        return config

    def _resource(self, host: Host) -> Coroutine[Any, Any, None]:
        """Its rows are on its disk when it answers, so a new process goes on where it was."""
        if host.recorder is None:
            host.recorder = self._recorder(host, [])
        if host.kept is None:
            kind = load(self.entries["resource_store"])(self.options["resource"].get("mutant", ""))
            host.kept = kind(self.plan.resource)
        else:
            host.kept.restarted()
        server = load(self.entries["resource_server"])(host.kept, host.recorder)
        return serve_resource(server.decide, host.node.address)

    async def _client(self, host: Host) -> None:
        probe = host.node.role == "probe"
        number = self.plan.clients + 1 if probe else int(host.node.name[1:])
        process = number + GENERATION * (host.boots - 1)
        recorder = host.recorder = self._recorder(host, [process])
        ctx = self._context(host, process, recorder)
        host.guard = ctx.guard
        await ctx.open()
        host.state = READY
        if self.phase < (PROBE if probe else GO):
            await host.go.wait()
        workload = load(self.entries["probe" if probe else "workload"])
        if self.phase != END:
            await workload(ctx)
        host.state = IDLE
        if self.phase != END:
            await host.end.wait()
        await ctx.close()
        host.state = DONE

    def _context(self, host: Host, process: int, recorder: MemoryRecorder) -> Context:
        told: list[Context] = []

        def tell(
            op: Op,
            *,
            attempt: int,
            lock: str,
            res: int = 0,
            text: str = "",
            token: int = NO_TOKEN,
        ) -> None:
            told[0].tell(op, attempt=attempt, lock=lock, res=res, text=text, token=token)

        servers = [other.node for other in self.named("server")]
        setup = ClientSetup(
            process=process,
            name=recorder.writer,
            servers=tuple((node.name, node.address) for node in servers),
            lease_ns=self.plan.lease_ns,
            options=self.options["system"],
            tell=tell,
            seed=self.plan.seed,
            clock=self.engine.now,
        )
        parts = Parts(
            lock_client=load(self.system.client)(setup),
            resource=ResourceLink(self.hosts["resource"].node.address),
            recorder=recorder,
            process=process,
            lease_ns=self.plan.lease_ns,
            rng=stream(self.plan.seed, "client", process),
            options=self.options["workload"],
            phase=lambda: self.phase,
            die=partial(self._die, host),
            now=self.engine.now,
        )
        told.append(Context(parts, tuple(lock_names(self.plan))))
        return told[0]

    def _die(self, host: Host) -> None:
        """An owner ends itself; a new process takes its place a little later."""
        host.state = DIED_ON_PURPOSE
        self.crash(host.node.name)
        self.engine.later(REVIVE_NS, partial(self._revive, host))
        raise Died

    def _revive(self, host: Host) -> None:
        if host.loop is None and host.node.name not in self.resting() and self.phase < END:
            self.boot(host.node.name)

    def _recorder(self, host: Host, processes: Sequence[int]) -> MemoryRecorder:
        generation = host.boots - 1
        name = host.node.name
        recorder = MemoryRecorder(
            name if generation == 0 else f"{name}.{generation}",
            {"node": name, "processes": list(processes), "role": host.node.role},
            self.engine.now,
            self.holding,
        )
        self.recorders.append(recorder)
        return recorder


def quietly_end(work: Any) -> None:
    """Close a coroutine, also one that still awaits something on its way out."""
    while inspect.getcoroutinestate(work) != inspect.CORO_CLOSED:
        with contextlib.suppress(RuntimeError):
            work.close()


def _sync_ns(chance: Callable[[], float], longest_ns: int) -> int:
    """How long a sync takes: mostly near nothing, seldom as long as the knob says."""
    u = chance()
    return int(longest_ns * u * u * u)
