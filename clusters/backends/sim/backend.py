"""The simulator as a backend: nodes on virtual time.

On them run the same servers, clients and resource as on hosts.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.clusters.backends.sim.endings import Work, end, works_of
from holdfast.clusters.backends.sim.event_loop import NodeLoop
from holdfast.clusters.backends.sim.fault_agent import SimAgent
from holdfast.clusters.backends.sim.network import Network
from holdfast.clusters.backends.sim.node_clock import MILLION, NodeClock
from holdfast.clusters.backends.sim.options import Knobs
from holdfast.clusters.backends.sim.recorder import LiveRows, SimRecorder
from holdfast.clusters.backends.sim.resource import ResourceLink
from holdfast.clusters.backends.sim.resource import serve as serve_resource
from holdfast.clusters.backends.sim.scheduler import Engine
from holdfast.harness.client import worker
from holdfast.harness.client.context import Context
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Command, Node, Place, Simulated, System
from holdfast.harness.core.seeds import stream
from holdfast.harness.plans.manifest import Entries
from holdfast.harness.recording.phase import END, GO, PREPARE, PROBE
from holdfast.harness.recording.segments import DIED_ON_PURPOSE, DONE, IDLE, OPENED, READY
from holdfast.harness.runs.journal import ELECTED, Mark

NOTICED_NS = 100 * MILLISECOND
"""The driver learns so much later that an owner died on purpose, and starts another."""


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
    work: Coroutine[object, None, None] | None = None
    """what its process runs, or ran last"""
    state: int = OPENED
    kept: Any = None
    trace: list[object] | None = None
    elections: list[Mark] = field(default_factory=list)
    """of all nodes, in order"""
    last_output: str = ""
    recorder: SimRecorder | None = None
    client: Context | None = None
    """the client API that its process uses, where the node is a client"""
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
        self.last_output = text

    def elected(self, term: int) -> None:
        """The node's server leads from now on: noted without an event or a request, which would
        shift everything that follows in a recorded seed."""
        mark = Mark(mark=ELECTED, t_ns=self.run_ns(), leader=self.node.name, term=term)
        self.elections.append(mark)

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


@dataclass(kw_only=True, slots=True)
class SimBackend:
    """`Backend`, `Vantage`, `Distant`, `Hosting` and `Exits` on virtual time, in this process.

    place     the seed of the run; its folders are not there
    entries   names of what runs on the nodes, as in the manifest
    live      what the rows of all writers say so far
    trace     where servers record their steps; None without a trace
    recorder  kind of the recorders
    """

    place: Place
    engine: Engine
    network: Network
    knobs: Knobs
    entries: Entries
    hosts: dict[str, Host] = field(default_factory=dict)
    elections: list[Mark] = field(default_factory=list)
    recorders: list[SimRecorder] = field(default_factory=list)
    live: LiveRows = field(default_factory=LiveRows)
    phase: int = PREPARE
    trace: list[object] | None = None
    recorder: type[SimRecorder] = SimRecorder
    _dead: list[tuple[NodeLoop, Sequence[Work]]] = field(default_factory=list)
    _files: dict[str, str] = field(default_factory=dict)
    _exited: list[str] = field(default_factory=list)
    _exit_news: asyncio.Future[None] | None = None

    # What a run requires of its backend

    async def open(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Every node gets an address, and a disk and clocks of its own."""
        for number, wanted in enumerate(nodes, 1):
            node = replace(wanted, address=f"10.77.1.{number}")
            rng = stream(self.place.seed, "node", node.name)
            most = self.knobs.drift_ppm
            clock = NodeClock(rng.randrange(10**12), rng.randint(-most, most))
            disk = stream(self.place.seed, "disk", node.name)
            sync = (
                partial(_sync_ns, disk.random, self.knobs.sync_ns) if self.knobs.sync_ns else None
            )
            self.hosts[node.name] = Host(
                node=node,
                clock=clock,
                engine=self.engine,
                sync_ns=sync,
                trace=self.trace,
                elections=self.elections,
            )
            self.network.place(node.name, node.address, server=node.role == "server")
        return self.seen_from("")

    async def start(self, node: str, command: Command) -> int:
        """Start a node's process: a coroutine that takes the last word of the command as config."""
        host = self.hosts[node]
        assert host.loop is None, f"{node} runs already"
        host.state, host.go, host.end = OPENED, asyncio.Event(), asyncio.Event()
        loop = host.loop = NodeLoop(node, self.engine, host.clock, self.network)
        word = command.argv[-1]
        config: dict[str, Json] = json.loads(self._files.pop(word, word))
        work: Coroutine[object, None, None]
        if host.node.role == "server":
            work = load(self.entries.simulated)(config, host)
        elif host.node.role == "resource":
            work = self._resource(host, config)
        else:
            work = self._client(host, config)
        host.work = work
        loop.call_soon(self._main, host, loop, work)
        return 0

    def agent_argv(self) -> Sequence[str]:
        """There is no agent process; `agents` injects the faults."""
        raise EnvironmentFailed("simulator: it has no fault agent process")

    def holder_pid(self, node: str) -> int:
        """No process: 0."""
        return 0

    def seen_from(self, node: str) -> Sequence[Node]:
        """All nodes; everybody sees them under the same addresses."""
        return [host.node for host in self.hosts.values()]

    async def close(self) -> None:
        """Time stops after this instant; `close_tasks` ends what still waits then."""
        self.engine.end()

    # What it has as other machines have it: no shared files, its own fault agent

    def place_of(self, node: str) -> Place:
        """A folder that is nowhere."""
        return self.place

    async def put(self, node: str, name: str, text: str) -> None:
        """Keep a small file until the process that reads it is started."""
        self._files[str(self.place.run_dir / name)] = text

    def alive(self, node: str) -> bool:
        """Whether a process runs on the node."""
        return self.hosts[node].alive

    def tell_phase(self, phase: int) -> None:
        """Tell every client how far the run is."""
        self.phase = phase
        for host in self.hosts.values():
            if host.loop is None:
                continue
            if phase >= (PROBE if host.node.role == "probe" else GO):
                host.loop.call_soon(host.go.set)
            if phase == END:
                host.loop.call_soon(host.end.set)

    def shift_ns(self, node: str) -> int:
        """Rows have the run's own clock."""
        return 0

    async def agents(self) -> SimAgent:
        """What does faults here."""
        return SimAgent(self)

    def system(self, entry: str, system: System) -> System:
        """The same system: the driver reaches its servers over the simulated network."""
        return system

    async def command(
        self, system: str, node: Node, servers: Sequence[Node], options: Mapping[str, str]
    ) -> Command:
        """A server's command, whose last word is the config of its simulated server."""
        loaded: System = load(system)
        if isinstance(loaded, Simulated):
            config = json.dumps(dict(loaded.simulated_config(node, options)))
            return Command(argv=(config,), log=Path(node.name))
        return loaded.command(node, servers, self.place, options)

    async def refresh(self) -> None:
        """Nothing to fetch: the history lies in this process."""

    async def until_lost(self) -> None:
        """Never returns: nothing of it can be lost."""
        await asyncio.get_running_loop().create_future()

    async def exited(self) -> Sequence[str]:
        """The nodes whose process exited by itself, as soon as there is one."""
        while not self._exited:
            self._exit_news = asyncio.get_running_loop().create_future()
            await self._exit_news
        names, self._exited = self._exited, []
        return names

    def last_output(self, node: str) -> str:
        """What ended the node's process, or else the last line that it wrote."""
        return self.hosts[node].last_output

    def _exit(self, name: str) -> None:
        self._exited.append(name)
        if self._exit_news is not None and not self._exit_news.done():
            self._exit_news.set_result(None)

    # The end of processes

    def _main(self, host: Host, loop: NodeLoop, work: Coroutine[object, None, None]) -> None:
        task = loop.create_task(work)

        def ended(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if loop.dead or isinstance(error, Died):
                return
            self.crash(host.node.name)
            if error is not None or host.state < IDLE:
                if error is not None:
                    host.last_output = f"{type(error).__name__}: {error}"
                self._exit(host.node.name)

        task.add_done_callback(ended)

    def crash(self, name: str) -> None:
        """The process of a node is gone, this instant; what it had not synced is lost."""
        host = self.hosts[name]
        loop = host.loop
        if loop is None:
            return
        host.loop = None
        loop.dead = True
        # What dies is kept until the run is over: to close its coroutines would run their code.
        # The process may have ended before the task of its work was made.
        begun = () if host.work is None else (host.work,)
        self._dead.append((loop, (*begun, *works_of(loop))))
        if host.recorder is not None and host.node.role != "resource":
            host.recorder.dead = True
        self.network.crash(name)

    def close_tasks(self) -> None:
        """When all is over and on record: end every coroutine there is, dead or alive."""
        for name in self.hosts:
            self.crash(name)
        for recorder in self.recorders:
            recorder.dead = True
        dead, self._dead = self._dead, []
        for loop, works in dead:
            end(loop, works)

    def reached(self) -> int:
        """The phase of the run."""
        return self.phase

    def raised(self) -> list[str]:
        """What was raised in background tasks of processes that live."""
        return [
            f"{host.node.name}: {text}"
            for host in self.hosts.values()
            if host.loop is not None
            for text in host.loop.failed
        ]

    # What runs on a node

    async def _resource(self, host: Host, config: Mapping[str, Json]) -> None:
        """Its rows are on its disk when it answers, so a new process goes on where it was."""
        if host.recorder is None:
            host.recorder = self._recorder(host, config, [])
        if host.kept is None:
            kind = load(self.entries.resource_store)(config.get("mutant", ""))
            host.kept = kind(config["mode"])
        else:
            host.kept.restarted()
        server = load(self.entries.resource_server)(host.kept, host.recorder)
        await serve_resource(server.decide, host.node.address)
        self._tell(host, config, READY)
        await host.end.wait()
        self._tell(host, config, DONE)
        # Its port stays open: a client that still asks is answered.
        await asyncio.get_running_loop().create_future()

    async def _client(self, host: Host, config: Mapping[str, Any]) -> None:
        probe = host.node.role == "probe"
        (process,) = config["processes"]
        recorder = host.recorder = self._recorder(host, config, [process])

        def made() -> Context:
            ctx = worker.context(
                config,
                process,
                recorder=recorder,
                resource=ResourceLink(config["resource"]["address"]),
                phase=self.reached,
                die=partial(self._die, host, config),
                now=self.engine.now,
                clock=self.engine.now,
            )
            host.client = ctx
            return ctx

        ctx = await worker.opened(made, self.reached, again=config["again"], say=host.say)
        self._tell(host, config, READY)
        if self.phase < (PROBE if probe else GO):
            await host.go.wait()
        if ctx is not None and self.phase != END:
            await load(config["workload"])(ctx)
        self._tell(host, config, IDLE)
        if self.phase != END:
            await host.end.wait()
        if ctx is not None:
            await ctx.close()
        self._tell(host, config, DONE)

    def _die(self, host: Host, config: Mapping[str, Json]) -> None:
        """An owner ends itself; the driver learns of it a little later, and starts another."""
        self._tell(host, config, DIED_ON_PURPOSE)
        self.crash(host.node.name)
        self.engine.later(NOTICED_NS, self._exit, host.node.name)
        raise Died

    def _tell(self, host: Host, config: Mapping[str, Any], state: int) -> None:
        host.state = self.live.told[config["writer"]] = state

    def _recorder(
        self, host: Host, config: Mapping[str, Any], processes: Sequence[int]
    ) -> SimRecorder:
        recorder = self.recorder(
            config["writer"],
            {"node": host.node.name, "processes": list(processes), "role": host.node.role},
            self.engine.now,
            self.live,
        )
        self.recorders.append(recorder)
        return recorder


def _sync_ns(chance: Callable[[], float], longest_ns: int) -> int:
    """How long a sync takes: mostly near nothing, seldom as long as the knob says."""
    u = chance()
    return int(longest_ns * u * u * u)
