"""One run from deployment to a complete history. It judges nothing.

`python -m holdfast.harness.driver.run RUN_DIR`: reads everything it needs from the manifest, writes
its records to files in the run directory, and its progress to standard output, one JSON line at a
time. When its standard input closes it heals, tears down and exits.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from holdfast.harness.client.agent_link import AgentLink
from holdfast.harness.client.self_faults import OrderingAgent
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import AgentLost, EnvironmentFailed, HoldfastError, no_space
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import EndsWithClient, Fabric, Hosting, Nemesis, Place
from holdfast.harness.core.waiting import Sleeps, to_the_end, until
from holdfast.harness.driver import server_record
from holdfast.harness.driver.cluster import Cluster
from holdfast.harness.driver.data_folders import free_zeros
from holdfast.harness.driver.operations import Operator
from holdfast.harness.driver.runtime import Runtime
from holdfast.harness.driver.schedule import Schedule
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.recording import segments, starvation
from holdfast.harness.recording.phase import END, GO, PROBE, STOP
from holdfast.harness.runs import inherited_signals
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.runs.journal import Mark

Progress = Callable[[Mapping[str, Json]], None]
END_WITHIN_NS = 10 * SECOND
LOOK_NS = 20 * MILLISECOND
"""Interval between two checks of the writers' states."""


class Run:
    """The stages of one run, in order; `problems`: why its history may be incomplete.

    The same for hosts and on virtual time; backend and runtime make the difference.
    """

    def __init__(
        self,
        manifest: Manifest,
        place: Place,
        backend: Fabric,
        runtime: Runtime,
        progress: Progress = lambda row: None,
    ) -> None:
        self.manifest = manifest
        self.plan, self.promises = manifest.plan, manifest.promises
        self.problems: list[str] = []
        self._place = place
        self._backend = backend
        self._runtime = runtime
        self._live = runtime.live
        self._progress = progress
        self._reported: list[str] = []
        self._ends_with_client = False
        self._broken = asyncio.Event()
        self._sleeps = Sleeps()
        self._end_faults: Callable[[], None] = lambda: None
        self.tell: Callable[[], None] = lambda: None
        """Reports the progress of the workload; for a backend on which checking takes no time."""

    def end_workload(self) -> None:
        """Ends the workload as if its time were over; the rest of the run follows."""
        self._sleeps.end()
        self._end_faults()

    async def execute(self) -> None:
        """Deploys, drives under faults, heals, settles, probes and tears down; always heals."""
        try:
            nemeses = {do: load(entry) for do, entry in self.manifest.entries.nemeses.items()}
            halves = dict.fromkeys(half for one in nemeses.values() for half in one.agent)
            agent = await self._start_agent(list(halves))
        except BaseException:
            await to_the_end(self._tear_down())
            raise
        cluster = self._cluster(agent, nemeses.values())
        schedule = Schedule(
            faults=self.plan.faults,
            nemeses=nemeses,
            seed=self.plan.seed,
            cluster=cluster,
            live=self._live,
            note=self._runtime.append,
            now=self._runtime.now,
            peers=self.manifest.peers,
        )
        try:
            await self._while_all_last(agent, self._stages(cluster, schedule))
        except AgentLost as lost:
            self._mark_failed(str(lost))
            await to_the_end(self._rescue(cluster))
            raise
        except HoldfastError as error:
            self._mark_failed(str(error))
            raise
        finally:
            await to_the_end(self._tear_down(agent))

    def _cluster(self, agent: AgentLink, nemeses: Collection[Nemesis]) -> Cluster:
        entries, backend = self.manifest.entries, self._backend
        system = load(entries.system)
        self._ends_with_client = isinstance(system, EndsWithClient) and system.ends_with_client
        # A backend with its own fault agents injects all faults through them; elsewhere clients on
        # this host are routed through our agent, or inject faults into themselves.
        hosting = isinstance(backend, Hosting)
        if isinstance(backend, Hosting):
            system = backend.system(entries.system, system)
        traits = [nemesis.traits for nemesis in nemeses]
        cluster = Cluster(
            plan=self.plan,
            place=self._place,
            backend=backend,
            runtime=self._runtime,
            system=system,
            agent=agent if hosting else OrderingAgent(agent, self._place.run_dir / "workers"),
            tapped=any(one.on_connections for one in traits) and not hosting,
            ordered=any(one.in_client for one in traits) and not hosting,
            entries=entries,
            options=self.manifest.options,
            site=self.manifest.site,
            over_ns=self.plan.time_ns + self._settle_ns() + 60 * SECOND,
        )
        if any(one.operates for one in traits) and not hosting:
            cluster.agent = Operator(cluster)
        return cluster

    async def _tear_down(self, agent: AgentLink | None = None) -> None:
        """Heals and removes everything; a failure of one part does not skip the others."""
        try:
            self._runtime.set_phase(END)
            if agent is not None:
                await agent.close()
        finally:
            try:
                await self._backend.close()
                free_zeros(self._place.run_dir / "data")
            finally:
                self._runtime.close()

    async def _rescue(self, cluster: Cluster) -> None:
        """Undoes the faults of the first fault agent, which has exited, with a second one.

        A backend with its own fault agents ends what runs in the nodes, including the faults.
        """
        if isinstance(self._backend, Hosting):
            return
        try:
            agent = await self._start_agent()
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

    async def _while_all_last(
        self, agent: AgentLink, stages: Coroutine[object, None, None]
    ) -> None:
        """Executes the stages; ends them at once if the fault agent or a host is lost."""
        work = asyncio.ensure_future(stages)
        source = self._backend if isinstance(self._backend, Hosting) else agent
        loss = asyncio.ensure_future(source.until_lost())
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

    async def _start_agent(self, halves: Sequence[str] = ()) -> AgentLink:
        """A fault agent that knows the kinds of fault with these halves."""
        backend = self._backend
        if isinstance(backend, Hosting):
            agent: AgentLink = await backend.agents()
        else:
            run = RunDir(self._place.run_dir)
            env = {"PYTHONPATH": str(run.code), **self._runtime.environ}
            agent = await AgentLink.start(backend.agent_argv(), env, run.log("agent", "agent"))
        await agent.ask("hello", kill_on_eof=True)
        if halves:
            await agent.ask("load", halves=list(halves))
        return agent

    async def _stages(self, cluster: Cluster, schedule: Schedule) -> None:
        self._say("deploy")
        deploy_from = self._runtime.now()
        await cluster.open()
        async with server_record.recorded(cluster) as finish:
            await self._from_ready(cluster, schedule, deploy_from)
            await finish()

    async def _from_ready(self, cluster: Cluster, schedule: Schedule, deploy_from: int) -> None:
        now, set_phase = self._runtime.now, self._runtime.set_phase
        # The first check is one interval after the last start, so that a simulated run begins at
        # the same moment whether its clients connect quickly or slowly.
        await asyncio.sleep(LOOK_NS / SECOND)
        await self._until_states(cluster, "ready", segments.READY, self.manifest.ready_ns)
        self._mark("deployed", took_ns=now() - deploy_from)
        start_ns = self._mark("start")
        set_phase(GO)
        watcher = asyncio.ensure_future(self._watch(cluster, schedule, start_ns))
        driving = asyncio.ensure_future(self._drive(cluster, schedule, start_ns))
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
        # What exited since the last look; an owner that died on purpose is not needed any more.
        known = (*schedule.resting, *schedule.mortal)
        for name in () if self._broken.is_set() else cluster.exited_now(known):
            if self._state(cluster.running[name].writer) != segments.DIED_ON_PURPOSE:
                await self._handle_exit(cluster, name, schedule)
        self._mark("end", problems=[*self.problems, *self._runtime.problems()])
        set_phase(END)
        if self._broken.is_set():
            raise EnvironmentFailed(self.problems[-1])
        self._say("collect")
        await self._until_states(cluster, "done", segments.DONE, END_WITHIN_NS)

    async def _drive(self, cluster: Cluster, schedule: Schedule, start_ns: int) -> None:
        """Runs the workload under its faults, then settles, then probes."""
        set_phase = self._runtime.set_phase
        self._end_faults = schedule.end
        if self._sleeps.ended:
            schedule.end()
        await schedule.run(start_ns)
        await self._sleeps.until(start_ns + self.plan.time_ns, self._runtime.now)
        await cluster.agent.ask("heal_all")
        self._mark("stop")
        set_phase(STOP)
        self._say("settle")
        await self._until_states(cluster, "idle", segments.IDLE, self._settle_ns())
        self._say("probe")
        self._mark("probe")
        set_phase(PROBE)
        await self._until_probed(cluster)

    def _settle_ns(self) -> int:
        """Recovery, and a lease for every possible holder, waiter and unanswered acquire."""
        parties = self.plan.clients + 1
        hold_ns = self.manifest.longest_hold_ns
        return int(self.promises.recovery_ns + parties * hold_ns + 5 * SECOND)

    async def _until_probed(self, cluster: Cluster) -> None:
        bound = int(self.manifest.options.workload["probe_ns"])
        within_ns = self.plan.locks * (bound + SECOND) + 15 * SECOND
        for node in cluster.named("probe"):
            # A probe that exited unexpectedly is a problem already.
            def over(name: str = node.name) -> bool:
                return self._reached(cluster, name, segments.IDLE) or not cluster.alive(name)

            if not await self._until(over, within_ns):
                self.problems.append(f"the probe did not finish within {within_ns // SECOND} s")

    async def _until_states(self, cluster: Cluster, word: str, state: int, within_ns: int) -> None:
        """Waits until every living writer has reached a state; the others become a problem.

        The resource and the probe have no workload that could become idle.
        """
        deadline = self._runtime.now() + within_ns
        roles = ("client",) if state == segments.IDLE else ("client", "resource", "probe")
        for name in [node.name for role in roles for node in cluster.named(role)]:
            left_ns = max(0, deadline - self._runtime.now())

            def there(name: str = name) -> bool:
                return self._reached(cluster, name, state) or not cluster.alive(name)

            if not await self._until(there, left_ns):
                writer = cluster.running[name].writer
                self.problems.append(f"{writer} was not {word} within {within_ns // SECOND} s")
            elif state == segments.READY and not self._reached(cluster, name, state):
                await cluster.require_service()
                raise EnvironmentFailed(cluster.exit_message(name))

    async def _until(self, condition: Callable[[], bool], within_ns: int) -> bool:
        now = self._runtime.now
        return await until(condition, within_ns=within_ns, every_ns=LOOK_NS, now=now)

    def _reached(self, cluster: Cluster, name: str, state: int) -> bool:
        return self._state(cluster.running[name].writer) >= state

    def _state(self, writer: str) -> int:
        return self._live.states().get(writer, 0)

    async def _watch(self, cluster: Cluster, schedule: Schedule, start_ns: int) -> None:
        """Reports progress, restarts owners that exited on purpose, notices other exits."""
        self.tell = partial(self._say_run, schedule, start_ns)
        while True:
            self._live.look()
            self.tell()
            for name in await cluster.exited(schedule.resting):
                if name not in schedule.mortal:
                    await self._handle_exit(cluster, name, schedule)

    def _say_run(self, schedule: Schedule, start_ns: int) -> None:
        self._say(
            "run",
            t_ns=self._runtime.now() - start_ns,
            of_ns=self.plan.time_ns,
            grants=self._live.grants,
            ops=self._live.ops,
            faults=schedule.done,
            active=schedule.active,
        )

    async def _handle_exit(self, cluster: Cluster, name: str, schedule: Schedule) -> None:
        writer = cluster.running[name].writer
        if self._state(writer) == segments.DIED_ON_PURPOSE:
            if name in schedule.resting or cluster.alive(name):
                return
            try:
                await cluster.start(name)
            except AgentLost:
                raise
            except EnvironmentFailed as error:
                await cluster.require_service()
                self._reported.append(writer)
                self.problems.append(str(error))
        elif self._state(writer) != segments.DONE and writer not in self._reported:
            self._reported.append(writer)
            await cluster.require_service()
            self.problems.append(cluster.exit_message(name))
            if self._ends_with_client and name[0] in "cp":
                self._broken.set()

    def _mark(
        self,
        what: str,
        *,
        took_ns: int | None = None,
        problems: Sequence[str] | None = None,
        reason: str | None = None,
    ) -> int:
        t_ns = self._runtime.now()
        row = Mark(mark=what, t_ns=t_ns, took_ns=took_ns, problems=problems, reason=reason)
        self._runtime.append(row)
        return t_ns

    def _mark_failed(self, reason: str) -> None:
        """The same on a disk that may be full, which is why the run failed or does not matter."""
        with suppress(EnvironmentFailed):
            self._mark("failed", reason=reason)

    def _say(self, stage: str, **rest: Json) -> None:
        # The reader of the progress may have exited: the end of standard input reports that.
        with suppress(BrokenPipeError):
            self._progress({"stage": stage, **rest})


END_WORKLOAD = "end the workload"
"""A line on the driver's standard input."""


class _Stop:
    """Stops the work, once: a second ^C must not interrupt the healing."""

    def __init__(self, work: asyncio.Task[None]) -> None:
        self._work = work
        self._asked = False

    def __call__(self) -> None:
        if not self._asked:
            self._asked = True
            self._work.cancel()


async def _until_input_ends(stop: _Stop, end_workload: Callable[[], None]) -> None:
    """Stops the work when the process that started this one has exited; until then, obeys it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        if line.decode(errors="replace").strip() == END_WORKLOAD:
            end_workload()
    stop()


async def _main(started: Callable[[], Run]) -> None:
    runs: list[Run] = []

    async def execute() -> None:
        runs.append(started())
        await runs[0].execute()

    def end_workload() -> None:
        for run in runs:
            run.end_workload()

    work = asyncio.ensure_future(execute())
    stop = _Stop(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    orphaned = asyncio.ensure_future(_until_input_ends(stop, end_workload))
    try:
        await work
    finally:
        orphaned.cancel()


def main(argv: list[str]) -> int:
    """Exit code 0: a complete history; 130: stopped; else that of the error it printed."""
    inherited_signals.end_here()
    run = RunDir(Path(argv[1]))
    manifest = run.read_manifest()
    starvation.begin(run.path, "driver")

    def progress(row: Mapping[str, Json]) -> None:
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()

    def started() -> Run:
        # It reads rows with numpy, which the driver in the simulator does not need.
        from holdfast.harness.driver.host_runtime import HostRuntime

        place = Place(
            run_id=manifest.run,
            run_dir=run.path,
            shared=(run.code, *map(Path, manifest.libraries)),
            label=manifest.label,
            seed=manifest.plan.seed,
            hosts=manifest.hosts,
        )
        backend = load(manifest.entries.backend)(place)
        runtime = HostRuntime(place, backend)
        return Run(manifest, place, backend, runtime, progress)

    failed: HoldfastError
    try:
        asyncio.run(_main(started))
    except asyncio.CancelledError:
        return 130
    except HoldfastError as error:
        failed = error
    except OSError as error:
        full = no_space(error, run.path)
        if full is None:
            raise
        failed = full
    else:
        return 0
    # The log may lie on the disk that is full, and the reader of the progress may have exited.
    with suppress(OSError):
        sys.stderr.write(f"{failed}\n")
    with suppress(BrokenPipeError):
        progress({"stage": "failed", "error": str(failed), "exit_code": failed.exit_code})
    return failed.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv))
