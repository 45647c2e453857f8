"""One simulated run in this process, from a manifest to all that a run on hosts leaves behind."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.clusters.backends.sim.backend import SimBackend
from holdfast.clusters.backends.sim.endings import end
from holdfast.clusters.backends.sim.event_loop import NodeLoop
from holdfast.clusters.backends.sim.forbidden_calls import watched
from holdfast.clusters.backends.sim.interrupts import between_steps
from holdfast.clusters.backends.sim.network import Network
from holdfast.clusters.backends.sim.node_clock import NodeClock
from holdfast.clusters.backends.sim.options import Knobs
from holdfast.clusters.backends.sim.recorder import SimRecorder
from holdfast.clusters.backends.sim.scheduler import Engine
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.ports import Place
from holdfast.harness.driver.run import Progress, Run
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.recording.segments import write_closed
from holdfast.harness.runs import directory
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.runs.journal import FaultRow, Mark
from holdfast.harness.verdicts.specification import Settled

if TYPE_CHECKING:
    from holdfast.harness.history.reader import Written

DRIVER, DRIVER_ADDRESS = "driver", "10.77.0.1"
BEYOND_NS = 3600 * SECOND


@dataclass(frozen=True, kw_only=True)
class SimulatedRun:
    """What a simulated run left.

    recorders   the writers with their rows, in order of their beginning
    marks       rows of times.jsonl
    faults      rows of faults.jsonl
    events      callbacks that ran; virtual_ns: how much time passed in the simulated world
    settled     the end of the run, None if a server was down, a fault was not healed, or servers
                did not reach each other
    """

    recorders: Sequence[SimRecorder]
    marks: Sequence[Mark]
    faults: Sequence[FaultRow]
    events: int
    virtual_ns: int
    settled: Settled | None = None

    @property
    def digest(self) -> str:
        """A hash of the whole history: every row and string of every writer, in order."""
        found = hashlib.sha256()
        for recorder in self.recorders:
            found.update(recorder.writer.encode())
            found.update(recorder.packed())
            found.update("\x1f".join(recorder.strings).encode())
        return found.hexdigest()[:16]

    def keep(self, run: RunDir) -> None:
        """Write what a run on hosts would have left in its run directory."""
        for recorder in self.recorders:
            write_closed(run.history, recorder.meta, recorder.strings, recorder.packed())
        for path, rows in ((run.times, self.marks), (run.faults, self.faults)):
            for row in rows:
                directory.append(path, plain(row))

    def written(self) -> list[Written]:
        """The rows of all writers for a judge in this process."""
        # The judge's reader needs numpy, which a simulated run does without.
        from holdfast.harness.history.reader import Written

        return [
            Written(meta=recorder.meta, strings=recorder.strings, rows=recorder.packed())
            for recorder in self.recorders
        ]


class VirtualRuntime:
    """`Runtime` in memory, on the true time of a simulated world."""

    def __init__(self, backend: SimBackend, breaches: Mapping[str, None]) -> None:
        self.now = backend.engine.now
        self.live = backend.live
        self.environ: Mapping[str, str] = {}
        self.marks: list[Mark] = []
        self.faults: list[FaultRow] = []
        self.set_phase = backend.tell_phase
        self._backend = backend
        self._breaches = breaches

    def append(self, row: FaultRow | Mark) -> None:
        """Keep the row."""
        if isinstance(row, Mark):
            self.marks.append(row)
        else:
            self.faults.append(row)

    def problems(self) -> Sequence[str]:
        """What background tasks raised, and calls to the world outside (`sim_guard`)."""
        return [*self._backend.raised(), *self._breaches]

    def close(self) -> None:
        """Nothing is open."""


class Observer(Protocol):
    """What a re-execution is observed by.

    engine     runs the loops in place of the usual one, and records each step
    recorder   makes the recorders of the writers, in place of the usual ones
    sees       called once, with the nodes
    """

    engine: Engine
    recorder: type[SimRecorder]

    def sees(self, backend: SimBackend) -> None: ...


def simulate(
    manifest: Manifest,
    progress: Progress = lambda row: None,
    trace: list[object] | None = None,
    observer: Observer | None = None,
) -> SimulatedRun:
    """Carry out the run of a manifest as fast as it goes; `progress` gets each of its stages.

    trace      gets each step of the servers, in order, for their specification; None: no trace
    observer   gets each step of the scheduler, which must change nothing; None: none does

    EnvironmentFailed where no cluster came up, or the run does not end.
    """
    engine = Engine() if observer is None else observer.engine
    # To its end, when all coroutines are closed and what they were part of is gone.
    with between_steps(engine.next):
        return _simulated(manifest, progress, trace, observer, engine)


def _simulated(
    manifest: Manifest,
    progress: Progress,
    trace: list[object] | None,
    observer: Observer | None,
    engine: Engine,
) -> SimulatedRun:
    seed = manifest.plan.seed
    knobs = Knobs.of(manifest.options.backend)
    network = Network(engine, seed, knobs.weather, knobs.network)
    network.place(DRIVER, DRIVER_ADDRESS, server=False)
    loop = NodeLoop(DRIVER, engine, NodeClock(0, 0), network)
    entries = manifest.entries
    place = Place(run_id="sim", run_dir=Path(), shared=(Path(),), label="", seed=seed)
    backend = SimBackend(
        place=place,
        engine=engine,
        network=network,
        knobs=knobs,
        entries=entries,
        trace=trace,
    )
    if observer is not None:
        backend.recorder = observer.recorder
        observer.sees(backend)
    begun_ns = engine.now_ns
    with watched(knobs.guard) as breaches:
        runtime = VirtualRuntime(backend, breaches)
        run = Run(manifest, place, backend, runtime, progress)
        work = _begin(loop, run)
        try:
            if not engine.run(begun_ns + BEYOND_NS, lambda: run.tell()):
                raise EnvironmentFailed("simulator: the run did not end within 1 h of virtual time")
        except BaseException:
            _stop(engine, backend, loop, work)
            raise
    simulated = SimulatedRun(
        recorders=tuple(backend.recorders),
        marks=sorted([*runtime.marks, *backend.elections], key=lambda mark: mark.t_ns),
        faults=runtime.faults,
        events=engine.events,
        virtual_ns=engine.now_ns - begun_ns,
        settled=_settled(backend, runtime),
    )
    _end_all(backend, loop)
    work[0].result()
    return simulated


def _settled(backend: SimBackend, runtime: VirtualRuntime) -> Settled | None:
    """The end of the run, when time has stopped and before its processes end."""
    healed = [mark.t_ns for mark in runtime.marks if mark.mark == "stop"]
    servers = [host for host in backend.hosts.values() if host.node.role == "server"]
    settled_ns = backend.network.settled_ns()
    failed = any(row.event == "failed" for row in runtime.faults)
    if not healed or failed or settled_ns < 0 or not all(host.alive for host in servers):
        return None
    weather, sync_ns = backend.network.weather, backend.knobs.sync_ns
    return Settled(
        from_ns=max(healed[0], settled_ns),
        # A sender finishes one sync, then makes what it says durable; so does the receiver.
        trip_ns=weather.slow_ns + weather.spike_ns + 4 * sync_ns,
        loss=weather.loss if weather.loose else 0.0,
    )


def _begin(loop: NodeLoop, run: Run) -> list[asyncio.Task[None]]:
    """Have the driver's loop carry out the run; the list holds its task once time passes."""
    work: list[asyncio.Task[None]] = []
    loop.call_soon(lambda: work.append(loop.create_task(run.execute())))
    return work


def _stop(
    engine: Engine, backend: SimBackend, loop: NodeLoop, work: Sequence[asyncio.Task[None]]
) -> None:
    """End all that runs on nodes, let the driver tear down, and end what that has left."""
    backend.close_tasks()
    for task in work:
        task.cancel()
    try:
        with suppress(EnvironmentFailed):
            engine.run(engine.now_ns + SECOND)
    finally:
        # The driver heals on its way out: servers that a fault had killed run again by now.
        _end_all(backend, loop)


def _end_all(backend: SimBackend, loop: NodeLoop) -> None:
    """End every coroutine there is, on nodes and of the driver."""
    loop.dead = True
    backend.close_tasks()
    end(loop, ())


def precheck() -> str | None:
    """It runs wherever Python does."""
    return None
