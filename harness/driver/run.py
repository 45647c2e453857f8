"""One run from deployment to a complete history. It judges nothing.

On hosts it is a process of its own (`process.py`), in the simulator a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import AgentLost, EnvironmentFailed, HoldfastError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Fabric, Hosting, Place
from holdfast.harness.core.waiting import Sleeps, to_the_end, until
from holdfast.harness.driver import server_record
from holdfast.harness.driver.assembly import Assembly, ends_with_client, settle_ns
from holdfast.harness.driver.cluster import Cluster
from holdfast.harness.driver.data_folders import free_zeros
from holdfast.harness.driver.runtime import Runtime
from holdfast.harness.driver.schedule import Schedule
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.recording import segments
from holdfast.harness.recording.phase import END, GO, PROBE, STOP
from holdfast.harness.runs.journal import Mark

if TYPE_CHECKING:
    from holdfast.harness.client.agent_link import AgentLink

Progress = Callable[[Mapping[str, Json]], None]
END_WORKLOAD = "end the workload"
"""A line on the driver's standard input: as `Run.end_workload`."""
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
        self.plan = manifest.plan
        self.problems: list[str] = []
        self._place = place
        self._backend = backend
        self._runtime = runtime
        self._assembly = Assembly(manifest=manifest, place=place, backend=backend, runtime=runtime)
        self._live = runtime.live
        self._progress = progress
        self._reported: list[str] = []
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
            nemeses = self._assembly.nemeses()
            agent = await self._assembly.agent(nemeses.values())
        except BaseException:
            await to_the_end(self._tear_down())
            raise
        cluster = self._assembly.cluster(agent, nemeses.values())
        schedule = self._assembly.schedule(cluster, nemeses)
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
        try:
            await self._assembly.rescue(cluster)
        except HoldfastError as error:
            self._say("healing", problem=str(error))

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
        await self._until_states(cluster, "idle", segments.IDLE, settle_ns(self.manifest))
        self._say("probe")
        self._mark("probe")
        set_phase(PROBE)
        await self._until_probed(cluster)

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
            if name[0] in "cp" and ends_with_client(self.manifest):
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
