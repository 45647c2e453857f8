"""A cluster of real servers on which operations are carried out one by one, outside of a run.

Servers only: no clients, no resource. Each operation is a fault of its real nemesis that goes
through the schedule, the operator and the fault agent, so that its row in the fault journal is what
a run would have. Everything happens in the network of a `local` backend.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from holdfast import catalogue
from holdfast.clusters.backends.local.backend import LocalBackend
from holdfast.harness.client.agent_link import AgentLink
from holdfast.harness.core.clock import SECOND, now_ns
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Fault, Nemesis, Node, Place, System
from holdfast.harness.core.waiting import until_answer
from holdfast.harness.driver.cluster import Cluster
from holdfast.harness.driver.operations import Operator
from holdfast.harness.driver.runtime import Runtime
from holdfast.harness.driver.schedule import Schedule
from holdfast.harness.plans.manifest import Entries, Options
from holdfast.harness.plans.plan import Plan
from holdfast.harness.runs.journal import FaultRow
from tests.harness.schedule_parts import NoHolders

SOURCES = Path(__file__).resolve().parents[2] / "src"
DRIVER = "10.77.0.1"
"""Address from which the driver asks the servers."""
ENDED_NS = 5 * SECOND
UP_NS = 30 * SECOND
Step = Callable[[], Awaitable[None]]


async def nothing() -> None:
    """Between the injection and the heal, nothing happens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What the fault journal says of an operation. `said`: the reason, or the problem in the
    evidence."""

    claimed: bool
    said: str
    evidence: Mapping[str, Any]


@dataclass
class Books:
    """Clock and variables of a run that keeps no records."""

    environ: dict[str, str] = field(default_factory=dict)
    now: Callable[[], int] = now_ns


class Between:
    """The operator; before the observation of a fault, that is between its injection and its heal,
    something else happens."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self.step: Step = nothing

    async def ask(self, do: str, **args: object) -> dict[str, Any]:
        """As a fault agent."""
        if do == "observe":
            await self.step()
        return await self._operator.ask(do, **args)


class OperatedCluster:
    """Servers of one system, with the operations and what makes them impossible."""

    def __init__(self, cluster: Cluster, agent: AgentLink, between: Between) -> None:
        self.cluster = cluster
        self.agent = agent
        self._between = between
        self._count = 0

    @property
    def nodes(self) -> list[Node]:
        """All servers."""
        return self.cluster.named("server")

    def node(self, name: str) -> Node:
        """A server by its name."""
        return next(node for node in self.nodes if node.name == name)

    def data(self, name: str) -> Path:
        """Data folder of a server."""
        return self.cluster.place.run_dir / "data" / name

    async def operate(
        self, kind: str, target: str, between: Step = nothing, **params: str
    ) -> Outcome:
        """Carries out one operation; `between` its injection and its heal something happens."""
        self._count += 1
        id = f"f{self._count}"
        rows: list[FaultRow] = []
        nemesis: Nemesis = load(catalogue.NEMESES[kind].entry)
        fault = Fault(id=id, do=kind, target=target, at_ns=0, for_ns=0, params=params)
        self._between.step = between
        schedule = Schedule(
            faults=[fault],
            nemeses={kind: nemesis},
            seed=self._count,
            cluster=self.cluster,
            live=NoHolders(),
            note=rows.append,
        )
        await schedule.run(now_ns())
        self._between.step = nothing
        last = rows[-1]
        evidence = dict(last.evidence or {})
        claimed = any(row.event == "healed" and row.effective is True for row in rows)
        return Outcome(
            claimed=claimed,
            said=f"{last.event} {last.reason or evidence.get('problem', '')}",
            evidence=evidence,
        )

    async def up(self) -> None:
        """Starts servers that do not run, and waits until all are ready."""
        for node in self.nodes:
            if not self.cluster.alive(node.name):
                await self.cluster.start(node.name)
        for node in self.nodes:
            ready = partial(self.cluster.system.ready, node, self.cluster.options.system)
            assert await until_answer(ready, within_ns=UP_NS), f"{node.name} is not ready"

    @asynccontextmanager
    async def struck(self, do: str, *names: str) -> AsyncIterator[None]:
        """Another fault acts on servers meanwhile: `kill` or `pause`."""
        self._count += 1
        fault = f"other{self._count}"
        await self.agent.ask(do, fault=fault, nodes=list(names))
        try:
            yield
        finally:
            healed = await self.agent.ask("heal", fault=fault)
            for name in healed["evidence"].get("restart", ()):
                await self.cluster.start(name)
            await self.up()

    @asynccontextmanager
    async def unreachable(self, *names: str) -> AsyncIterator[None]:
        """The driver does not reach servers meanwhile; they reach each other."""
        self._count += 1
        fault = f"other{self._count}"
        links = [{"node": name, "from": [DRIVER]} for name in names]
        await self.agent.ask("cut", fault=fault, links=links)
        try:
            yield
        finally:
            await self.agent.ask("heal", fault=fault)
            await self.up()

    @asynccontextmanager
    async def killed_at_start(self, name: str) -> AsyncIterator[None]:
        """Each process that is started on a server meanwhile is killed before it is ready."""
        first = self.cluster.running[name].pid

        async def kill() -> None:
            while True:
                pid = self.cluster.running[name].pid
                if pid != first and self.cluster.alive(name):
                    os.kill(pid, signal.SIGKILL)
                await asyncio.sleep(0.001)

        killer = asyncio.ensure_future(kill())
        try:
            yield
        finally:
            killer.cancel()
            await self.up()

    def process(self, word: str) -> tuple[int, int] | None:
        """Pid and start time of the process of this cluster with a word in its command line; None
        without one. Seen in /proc, without the driver's own records."""
        ours = self.cluster.place.run_dir.resolve()
        for entry in Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or ours not in (entry / "cwd").readlink().parents:
                    continue
                if word in (entry / "cmdline").read_text():
                    stat = (entry / "stat").read_text().rpartition(")")[2].split()
                    return int(entry.name), int(stat[19])
            except OSError:
                continue  # It has exited.
        return None


async def command(*words: str) -> None:
    """One command that must succeed."""
    process = await asyncio.create_subprocess_exec(*words)
    assert await process.wait() == 0, words


@asynccontextmanager
async def read_only(folder: Path) -> AsyncIterator[None]:
    """No file in a folder can be made, replaced or removed meanwhile; open ones can be written."""
    here = str(folder)
    await command("mount", "--bind", here, here)
    await command("mount", "-o", "remount,bind,ro", here)
    try:
        yield
    finally:
        await command("umount", "--lazy", here)


@asynccontextmanager
async def deployed(
    name: str, folder: Path, servers: int, options: Mapping[str, str], site: Sequence[Path] = ()
) -> AsyncIterator[OperatedCluster]:
    """A cluster in the present network, which is that of a `local` backend."""
    for part in ("workers", "data", "logs/agent"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    place = Place(run_id="operated", run_dir=folder, shared=(SOURCES, *site), label="operated")
    backend = LocalBackend(place)
    system: System = load(catalogue.SYSTEMS[name].entry)
    agent = await AgentLink.start(
        backend.agent_argv(), {"PYTHONPATH": str(SOURCES)}, folder / "logs" / "agent" / "log"
    )
    await agent.ask("hello", kill_on_eof=True)
    kinds: list[Nemesis] = [load(row.entry) for row in catalogue.NEMESES.values()]
    await agent.ask("load", halves=list(dict.fromkeys(half for one in kinds for half in one.agent)))
    cluster = Cluster(
        plan=Plan(system=name, backend="local", workload="none", nodes=servers, seed=1),
        place=place,
        backend=backend,
        runtime=cast(Runtime, Books()),
        system=system,
        agent=agent,
        entries=Entries(),
        options=Options(system=options, workload={}),
        over_ns=0,
    )
    between = Between(Operator(cluster))
    cluster.agent = between
    try:
        wanted = [Node(name=f"n{n}", role="server") for n in range(1, servers + 1)]
        cluster.nodes = tuple(await backend.open(wanted))
        for node in cluster.nodes:
            await cluster.adopt(node.name, agent)
        made = OperatedCluster(cluster, agent, between)
        await asyncio.gather(*(cluster.start(node.name) for node in cluster.nodes))
        await made.up()
        yield made
    finally:
        await agent.close()
        await backend.close()


def launched(argv: Sequence[str], prefix: Sequence[str]) -> str:
    """What a module of the tests prints in a network of its own; it must succeed."""
    root = Path(__file__).resolve().parents[2]
    environ = {**os.environ, "PYTHONPATH": f"{SOURCES}{os.pathsep}{root}"}
    words = [*prefix, sys.executable, "-P", "-m", *argv]
    done = subprocess.run(words, cwd=root, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
