"""One run from deployment to a complete history. It judges nothing.

`python -m holdfast.harness.driver.run RUN_DIR`: everything it needs stands in the manifest,
everything it learns goes to files in the run directory, and to its standard output one JSON line
of progress at a time. When its standard input closes it heals, tears down and leaves.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.harness.client.agent_link import AgentLink
from holdfast.harness.client.self_faults import Orders
from holdfast.harness.core.clock import MILLISECOND, SECOND, now_ns
from holdfast.harness.core.errors import AgentLost, EnvironmentFailed, HoldfastError
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Distant, Hosting, Place
from holdfast.harness.core.verdict import Promises
from holdfast.harness.core.waiting import sleep_until, to_the_end, until
from holdfast.harness.driver.cluster import Cluster, Entries
from holdfast.harness.driver.schedule import Schedule
from holdfast.harness.history.live import Live
from holdfast.harness.plans.manifest import plan_of
from holdfast.harness.recording import segments, starvation
from holdfast.harness.recording.phase import END, GO, PROBE, STOP, Phase
from holdfast.harness.runs import directory, registry
from holdfast.harness.runs.directory import RunDir

Progress = Callable[[Mapping[str, Any]], None]
END_WITHIN_NS = 10 * SECOND


class Run:
    """The stages of one run, in order; `problems` is why its history may say too little."""

    def __init__(self, run: RunDir, manifest: Mapping[str, Any], progress: Progress) -> None:
        self.run_dir = run
        self.manifest = manifest
        self.plan = plan_of(manifest)
        self.promises = Promises(**manifest["promises"])
        self.problems: list[str] = []
        self._progress = progress
        self._live = Live(run.history)
        self._reported: set[str] = set()
        self._broken = asyncio.Event()

    async def execute(self) -> None:
        """Deploy, drive under faults, heal, settle, probe, tear down; heals on every way out."""
        entries, place = self.manifest["entries"], self._place()
        backend = load(entries["backend"])(place)
        registry.note(place.run_id, run_dir=place.run_dir, label=place.label)
        phase = Phase.create(self.run_dir.phase, getattr(backend, "tell_phase", lambda _: None))
        if isinstance(backend, Distant):
            self._live = Live(self.run_dir.history, backend.shift_ns)
        try:
            agent = await self._start_agent(backend, place)
        except BaseException:
            await to_the_end(self._tear_down(backend, place, phase))
            raise
        system = load(entries["system"])
        if isinstance(backend, Hosting):
            system = backend.system(entries["system"], system)
        nemeses = {name: load(entry) for name, entry in entries["nemeses"].items()}
        cluster = Cluster(
            plan=self.plan,
            run=self.run_dir,
            place=place,
            backend=backend,
            system=system,
            agent=Orders(agent, self.run_dir.path / "workers"),
            tapped=any(nemesis.traits.on_connections for nemesis in nemeses.values()),
            ordered=any(nemesis.traits.in_client for nemesis in nemeses.values()),
            entries=Entries(
                system=entries["system"],
                workload=entries["workload"],
                probe=entries["probe"],
                resource_main=entries["resource_main"],
                resource_client=entries["resource_client"],
                resource_port=entries["resource_port"],
            ),
            options=self.manifest["options"],
            over_ns=self.plan.time_ns + self._settle_ns() + 60 * SECOND,
        )
        schedule = Schedule(
            faults=self.plan.faults,
            nemeses=nemeses,
            seed=self.plan.seed,
            cluster=cluster,
            live=self._live,
            note=partial(directory.append, self.run_dir.faults),
            peers=self.manifest.get("peers", True),
        )
        try:
            stages = self._stages(cluster, schedule, phase)
            await self._while_all_last(agent, backend, stages)
        except AgentLost as lost:
            self._mark("failed", reason=str(lost))
            await to_the_end(self._rescue(cluster, backend, place))
            raise
        except HoldfastError as error:
            self._mark("failed", reason=str(error))
            raise
        finally:
            await to_the_end(self._tear_down(backend, place, phase, agent))

    async def _tear_down(
        self, backend: Any, place: Place, phase: Phase, agent: AgentLink | None = None
    ) -> None:
        """Heals and removes everything; what fails of it keeps nothing of the rest from it."""
        try:
            phase.set(END)
            if agent is not None:
                await agent.close()
        finally:
            try:
                await backend.close()
            finally:
                phase.close()
                registry.forget(place.run_id)

    async def _rescue(self, cluster: Cluster, backend: Any, place: Place) -> None:
        """Undo by a second fault agent what the first one, which is gone, has left done.

        On hosts the steward ends what runs in the nodes, faults and all.
        """
        if isinstance(backend, Hosting):
            return
        try:
            agent = await self._start_agent(backend, place)
        except HoldfastError as error:
            self._say("healing", problem=str(error))
            return
        try:
            for node in cluster.nodes:
                with suppress(HoldfastError):
                    await cluster.adopt(node.name, agent)
            await agent.ask("recover")
        except HoldfastError as error:
            self._say("healing", problem=str(error))
        finally:
            await agent.close()

    def _place(self) -> Place:
        return Place(
            run_id=self.manifest["run"],
            run_dir=self.run_dir.path,
            shared=(self.run_dir.code, *map(Path, self.manifest["libraries"])),
            label=self.manifest["label"],
            seed=self.plan.seed,
            hosts=self.manifest.get("hosts", {}),
        )

    async def _while_all_last(
        self, agent: AgentLink, backend: Any, stages: Coroutine[Any, Any, None]
    ) -> None:
        """Carries the stages out; ends them at once if the fault agent or a host is lost."""
        work = asyncio.ensure_future(stages)
        lost = backend.until_lost() if isinstance(backend, Hosting) else agent.until_lost()
        loss = asyncio.ensure_future(lost)
        try:
            await asyncio.wait({work, loss}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
                await loss
            await work
        finally:
            for task in (work, loss):
                task.cancel()
            await asyncio.wait({work, loss})
            if not loss.cancelled():
                loss.exception()

    async def _start_agent(self, backend: Any, place: Place) -> AgentLink:
        if isinstance(backend, Hosting):
            agents: AgentLink = await backend.agents()
            await agents.ask("hello", kill_on_eof=True)
            return agents
        env = {"PYTHONPATH": str(self.run_dir.code), **registry.environ(place.label)}
        log = self.run_dir.log("agent", "agent")
        agent = await AgentLink.start(backend.agent_argv(), env, log)
        await agent.ask("hello", kill_on_eof=True)
        return agent

    async def _stages(self, cluster: Cluster, schedule: Schedule, phase: Phase) -> None:
        self._say("deploy")
        deploy_from = now_ns()
        await cluster.open()
        await self._until_states(cluster, "ready", segments.READY, self.manifest["ready_ns"])
        self._mark("deployed", took_ns=now_ns() - deploy_from)
        start_ns = self._mark("start")
        phase.set(GO)
        watcher = asyncio.ensure_future(self._watch(cluster, schedule, start_ns))
        driving = asyncio.ensure_future(self._drive(cluster, schedule, phase, start_ns))
        try:
            broken = asyncio.ensure_future(self._broken.wait())
            parts = (driving, broken, watcher)
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            broken.cancel()
            for part in (driving, watcher):
                if part.done():
                    part.result()
        finally:
            driving.cancel()
            watcher.cancel()
            await asyncio.wait((driving,))
        self._mark("end", problems=self.problems)
        phase.set(END)
        if self._broken.is_set():
            raise EnvironmentFailed(self.problems[-1])
        self._say("collect")
        await self._until_states(cluster, "done", segments.DONE, END_WITHIN_NS)

    async def _drive(
        self, cluster: Cluster, schedule: Schedule, phase: Phase, start_ns: int
    ) -> None:
        """The workload under its faults, then the settling, then the probe."""
        await schedule.run(start_ns)
        await sleep_until(start_ns + self.plan.time_ns)
        await cluster.agent.ask("heal_all")
        self._mark("stop")
        phase.set(STOP)
        self._say("settle")
        await self._until_states(cluster, "idle", segments.IDLE, self._settle_ns())
        self._say("probe")
        self._mark("probe")
        phase.set(PROBE)
        await self._until_probed(cluster)

    def _settle_ns(self) -> int:
        """Recovery, and a lease for every holder, waiter and unanswered acquire there may be."""
        parties = self.plan.clients + 1
        hold_ns = int(self.manifest["longest_hold_ns"])
        return int(self.promises.recovery_ns + parties * hold_ns + 5 * SECOND)

    async def _until_probed(self, cluster: Cluster) -> None:
        bound = int(self.manifest["options"]["workload"]["probe_ns"])
        within = self.plan.locks * (bound + SECOND) + 15 * SECOND
        for node in cluster.named("probe"):
            writer = cluster.running[node.name].writer
            if not await until(partial(self._idle, writer), within_ns=within):
                self.problems.append(f"the probe did not finish within {within // SECOND} s")

    async def _until_states(self, cluster: Cluster, word: str, state: int, within_ns: int) -> None:
        """Wait until every living writer is so far; who is not becomes a problem.

        The resource and the probe have no workload of their own that could become idle.
        """
        deadline = now_ns() + within_ns
        roles = ("client",) if state == segments.IDLE else ("client", "resource", "probe")
        for node in (node for role in roles for node in cluster.named(role)):
            writer = cluster.running[node.name].writer

            def there(name: str = node.name, writer: str = writer) -> bool:
                return self._state(writer) >= state or not cluster.alive(name)

            if not await until(there, within_ns=max(0, deadline - now_ns())):
                self.problems.append(f"{writer} was not {word} within {within_ns // SECOND} s")
            elif state == segments.READY and self._state(writer) < state:
                raise EnvironmentFailed(cluster.obituary(node.name))

    def _idle(self, writer: str) -> bool:
        return self._state(writer) >= segments.IDLE

    def _state(self, writer: str) -> int:
        return self._live.states().get(writer, 0)

    async def _watch(self, cluster: Cluster, schedule: Schedule, start_ns: int) -> None:
        """Report progress, start again owners that died on purpose, notice other deaths."""
        while True:
            self._live.look()
            self._say(
                "run",
                t_ns=now_ns() - start_ns,
                of_ns=self.plan.time_ns,
                grants=self._live.grants,
                ops=self._live.ops,
                faults=schedule.done,
                active=schedule.active,
            )
            for node in cluster.nodes:
                if cluster.alive(node.name) or node.name in schedule.resting:
                    continue
                await self._bury(cluster, node.name, schedule)
            await asyncio.sleep(200 * MILLISECOND / SECOND)

    async def _bury(self, cluster: Cluster, name: str, schedule: Schedule) -> None:
        writer = cluster.running[name].writer
        if self._state(writer) == segments.DIED_ON_PURPOSE:
            try:
                await cluster.start(name)
            except AgentLost:
                raise
            except EnvironmentFailed as error:
                self._reported.add(writer)
                self.problems.append(str(error))
        elif self._state(writer) != segments.DONE and writer not in self._reported:
            self._reported.add(writer)
            self.problems.append(cluster.obituary(name))
            if getattr(cluster.system, "ends_with_client", False) and name[0] in "cp":
                self._broken.set()

    def _mark(self, what: str, **rest: Any) -> int:
        t_ns = now_ns()
        directory.append(self.run_dir.times, {"mark": what, "t_ns": t_ns, **rest})
        return t_ns

    def _say(self, stage: str, **rest: Any) -> None:
        # Whoever showed the progress may be gone: the run is told by the end of its input.
        with suppress(BrokenPipeError):
            self._progress({"stage": stage, **rest})


class _Stop:
    """Asks the work to stop, once: a second ^C must not interrupt the healing."""

    def __init__(self, work: asyncio.Task[None]) -> None:
        self._work = work
        self._asked = False

    def __call__(self) -> None:
        if not self._asked:
            self._asked = True
            self._work.cancel()


async def _until_input_ends(stop: _Stop) -> None:
    """Stop the work when whoever started this process is gone."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    stop()


async def _main(execute: Callable[[], Awaitable[None]]) -> None:
    work = asyncio.ensure_future(_as_coroutine(execute))
    stop = _Stop(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    orphaned = asyncio.ensure_future(_until_input_ends(stop))
    try:
        await work
    finally:
        orphaned.cancel()


async def _as_coroutine(execute: Callable[[], Awaitable[None]]) -> None:
    await execute()


def main(argv: list[str]) -> int:
    """Exit code 0: a complete history; 130: asked to stop; else that of the error it printed."""
    run = RunDir(Path(argv[1]))
    manifest = run.read_manifest()
    starvation.begin(run.path, "driver")

    def progress(row: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()

    try:
        asyncio.run(_main(Run(run, manifest, progress).execute))
    except asyncio.CancelledError:
        return 130
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        with suppress(BrokenPipeError):
            progress({"stage": "failed", "error": str(error), "exit_code": error.exit_code})
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
