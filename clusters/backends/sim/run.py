"""One simulated run, from a manifest to everything that a run on hosts leaves behind."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from holdfast.clusters.backends.sim.cluster import Host, SimCluster
from holdfast.clusters.backends.sim.event_loop import NodeLoop
from holdfast.clusters.backends.sim.forbidden_calls import watched
from holdfast.clusters.backends.sim.network import Network
from holdfast.clusters.backends.sim.node_clock import NodeClock
from holdfast.clusters.backends.sim.options import Knobs
from holdfast.clusters.backends.sim.recorder import MemoryRecorder
from holdfast.clusters.backends.sim.scheduler import Engine
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Node
from holdfast.harness.core.verdict import Promises
from holdfast.harness.core.waiting import sleep_until, until, until_answer
from holdfast.harness.driver.schedule import Schedule
from holdfast.harness.plans.manifest import plan_of
from holdfast.harness.recording.phase import END, GO, PROBE, STOP
from holdfast.harness.recording.segments import DIED_ON_PURPOSE, DONE, IDLE, READY

DRIVER = Node(name="driver", role="driver", address="10.77.0.1")
END_WITHIN_NS = 10 * SECOND
READY_WITHIN_NS = 20 * SECOND
LOOK_NS = 20 * MILLISECOND
BEYOND_NS = 3600 * SECOND


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """What a simulated run left.

    recorders   the writers with their rows, in order of their beginning
    marks       rows of times.jsonl
    faults      rows of faults.jsonl
    events      callbacks that ran; virtual_ns: how much time passed in the simulated world
    """

    recorders: Sequence[MemoryRecorder]
    marks: Sequence[Mapping[str, Any]]
    faults: Sequence[Mapping[str, Any]]
    events: int
    virtual_ns: int

    @property
    def digest(self) -> str:
        """A hash of the whole history: every row and string of every writer, in order."""
        found = hashlib.sha256()
        for recorder in self.recorders:
            found.update(recorder.writer.encode())
            found.update(recorder.packed())
            found.update("\x1f".join(recorder.strings).encode())
        return found.hexdigest()[:16]


class SimRun:
    """The stages of `harness.run.Run`, on virtual time."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self.plan = plan_of(manifest)
        self.engine = Engine()
        knobs = Knobs.of(manifest["options"].get("backend", {}))
        network = Network(self.engine, self.plan.seed, knobs.weather, knobs.network)
        network.place(DRIVER.name, DRIVER.address, server=False)
        entries = manifest["entries"]
        self.cluster = SimCluster(
            plan=self.plan,
            engine=self.engine,
            network=network,
            knobs=knobs,
            system=load(entries["system"]),
            entries=entries,
            options=manifest["options"],
        )
        self.loop = NodeLoop(DRIVER.name, self.engine, NodeClock(0, 0), network)
        self.marks: list[dict[str, Any]] = []
        self.faults: list[Mapping[str, Any]] = []
        self._manifest = manifest
        self._guard = knobs.guard
        self._breaches: dict[str, None] = {}
        self._promises = Promises(**manifest["promises"])

    def execute(self) -> Simulated:
        """Everything, to the end. EnvironmentFailed where no cluster came up."""
        work: list[asyncio.Task[None]] = []

        def begin() -> None:
            work.append(self.loop.create_task(self._stages()))
            work[0].add_done_callback(lambda done: self.engine.end())

        self.loop.call_soon(begin)
        begun_ns = self.engine.now_ns
        try:
            with watched(self._guard) as self._breaches:
                over = self.engine.run(begun_ns + BEYOND_NS)
            if not over:
                raise EnvironmentFailed("simulator: the run did not end within 1 h of virtual time")
        except EnvironmentFailed:
            self.cluster.bury()
            raise
        simulated = Simulated(
            recorders=tuple(self.cluster.recorders),
            marks=self.marks,
            faults=self.faults,
            events=self.engine.events,
            virtual_ns=self.engine.now_ns - begun_ns,
        )
        self.loop.dead = True
        self.cluster.bury()
        work[0].result()
        return simulated

    async def _stages(self) -> None:
        cluster, plan, now = self.cluster, self.plan, self.engine.now
        await self._deploy()
        start_ns = self._mark("start")
        cluster.to_phase(GO)
        schedule = Schedule(
            faults=plan.faults,
            nemeses={do: load(entry) for do, entry in self._manifest["entries"]["nemeses"].items()},
            seed=plan.seed,
            cluster=cluster,
            live=cluster.holding,
            note=self.faults.append,
            now=now,
            peers=self._manifest.get("peers", True),
        )
        cluster.resting = lambda: schedule.resting
        await schedule.run(start_ns)
        await sleep_until(start_ns + plan.time_ns, now)
        await cluster.agent.ask("heal_all")
        self._mark("stop")
        cluster.to_phase(STOP)
        await self._until_states("idle", IDLE, self._settle_ns())
        self._mark("probe")
        cluster.to_phase(PROBE)
        await self._until_probed()
        problems = [*cluster.problems, *self._raised(), *self._breaches]
        self._mark("end", problems=problems)
        cluster.to_phase(END)
        await self._until_states("done", DONE, END_WITHIN_NS)

    async def _deploy(self) -> None:
        cluster, options = self.cluster, self._manifest["options"]["system"]
        cluster.place_nodes()
        for host in cluster.named("server"):
            await cluster.start(host.node.name)
        for host in cluster.named("server"):
            ready = partial(cluster.system.ready, host.node, options)
            if not await until_answer(ready, within_ns=READY_WITHIN_NS, now=self.engine.now):
                why = "; ".join(cluster.problems) or host.last_words
                raise EnvironmentFailed(f"simulator: {host.node.name} was not ready: {why}")
        for host in cluster.hosts.values():
            if host.node.role != "server":
                await cluster.start(host.node.name)
        await self._until_states("ready", READY, self._manifest["ready_ns"])
        self._mark("deployed", took_ns=0)

    def _settle_ns(self) -> int:
        """As `harness.run`: recovery, and a lease for every party there may be."""
        parties = self.plan.clients + 1
        hold_ns = int(self._manifest["longest_hold_ns"])
        return int(self._promises.recovery_ns + parties * hold_ns + 5 * SECOND)

    async def _until_probed(self) -> None:
        bound = int(self._manifest["options"]["workload"]["probe_ns"])
        within_ns = self.plan.locks * (bound + SECOND) + 15 * SECOND
        (probe,) = self.cluster.named("probe")
        if not await self._until(lambda: probe.state >= IDLE, within_ns):
            self._problem(f"the probe did not finish within {within_ns // SECOND} s")

    async def _until_states(self, word: str, state: int, within_ns: int) -> None:
        """Wait until every living client is so far; who is not becomes a problem."""
        deadline_ns = self.engine.now_ns + within_ns

        def there(host: Host) -> bool:
            return DIED_ON_PURPOSE > host.state >= state or not host.alive

        for host in self.cluster.named("client"):
            left_ns = max(0, deadline_ns - self.engine.now_ns)
            if not await self._until(partial(there, host), left_ns):
                name = host.recorder.writer if host.recorder else host.node.name
                self._problem(f"{name} was not {word} within {within_ns // SECOND} s")

    async def _until(self, condition: Callable[[], bool], within_ns: int) -> bool:
        return await until(condition, within_ns=within_ns, every_ns=LOOK_NS, now=self.engine.now)

    def _raised(self) -> list[str]:
        """What was raised in background tasks of processes that live."""
        return [
            f"{host.node.name}: {text}"
            for host in self.cluster.hosts.values()
            if host.loop is not None
            for text in host.loop.failed
        ]

    def _problem(self, text: str) -> None:
        self.cluster.problems.append(text)

    def _mark(self, what: str, **rest: Any) -> int:
        self.marks.append({"mark": what, "t_ns": self.engine.now_ns, **rest})
        return self.engine.now_ns


def precheck() -> str | None:
    """It runs wherever Python does."""
    return None


def simulate(manifest: Mapping[str, Any]) -> Simulated:
    """Carry out the run of a manifest in this process, as fast as it goes."""
    return SimRun(manifest).execute()
