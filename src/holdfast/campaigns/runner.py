"""Executes the runs of a campaign: in this process, in a process pool, or on other machines.

All executors have the interface of `concurrent.futures`. A run is executed in its own folder and
then moved to runs/ as a whole; only then the journal records it. An interrupted run is executed
again, a recorded one never.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from holdfast import catalogue
from holdfast.catalogue import user_system
from holdfast.engine import runner, seed_search, swarm
from holdfast.harness.campaigns import results
from holdfast.harness.campaigns.results import Result
from holdfast.harness.campaigns.spec import SWARM, Job
from holdfast.harness.campaigns.stopping import Decided
from holdfast.harness.core import extras
from holdfast.harness.core.errors import EnvironmentFailed, HoldfastError, UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.plans.plan import Plan
from holdfast.harness.runs import registry, signals
from holdfast.planning import fingerprints, prepare
from holdfast.planning.lazy_holders import with_lazy_holders
from holdfast.planning.resolve import Prepared, system_options

WORKERS_WITHIN_S = 10
"""How long a campaign waits for the first worker of its scheduler."""
SEEDS_A_TASK = 8
"""Simulated runs per task: they are so short that one task per run would cost more than the run."""
RUNS, ATTEMPTS, JOURNAL = "runs", ".attempts", "journal.jsonl"
PLANNED, PLANNED_SCHEMA = "planned.json", "holdfast-planned/1"
"""Keys of the runs that the campaign's file asks for: its journal has those of older files too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """The jobs of one task. folder: of the campaign; None: on another machine."""

    jobs: tuple[Job, ...]
    folder: Path | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """One finished run; `archive` is its directory as a zip if it ran on another machine."""

    result: Result
    archive: bytes = b""


def work(task: Task) -> list[Done]:
    """Execute the jobs of a task in order."""
    if task.folder is not None:
        return [_one(job, task.folder, archive=False) for job in task.jobs]
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        return [_one(job, Path(scratch), archive=True) for job in task.jobs]


def _one(job: Job, folder: Path, *, archive: bool) -> Done:
    """One run: judged, and its directory moved to runs/ if it is kept."""
    plan, again = job.plan, prepare.command(job.plan)
    try:
        if job.swarm:
            nodes = catalogue.SYSTEMS[plan.system].nodes
            plan = swarm.draw(plan.seed, plan.system, nodes, plan.options)
            again = prepare.command(plan)
        else:
            plan = with_lazy_holders(plan)
        prepared = prepare.prepared(plan)
        plan = prepared.plan
        act = _simulated if plan.backend in catalogue.VIRTUAL_TIME else _real
        result, made = act(job, prepared, again, folder)
    except HoldfastError as error:
        return Done(result=_failed(job, plan, again, str(error)))
    result = replace(
        result,
        checkers=fingerprints.checkers(),
        version=fingerprints.system(plan.system, plan.backend),
    )
    if made is None:
        return Done(result=result)
    kept = folder / RUNS / job.key
    _appear(made, kept)
    result = replace(result, run=f"{RUNS}/{job.key}")
    return Done(result=result, archive=_zipped(kept) if archive else b"")


def _simulated(
    job: Job, prepared: Prepared, again: str, folder: Path
) -> tuple[Result, Path | None]:
    """In memory; a directory is written only for an incomplete run, or one that violates what no
    run of its cell is known to violate."""
    manifest = prepare.manifest(prepared, job.key, again)
    done = seed_search.in_memory(manifest)
    verdicts = done.verdicts
    if not job.swarm:
        verdicts = replace(verdicts, evidence=load(catalogue.EVIDENCE)(done.case))
    result = replace(results.of_verdicts(verdicts, manifest, key=job.key), digest=done.world.digest)
    if job.swarm:
        name = results.variant(prepared.plan.system, job.plan.options, "")
        result = replace(result, system=name, workload=SWARM, nemesis=SWARM)
    made = None
    violated = {prop for prop, one in result.properties.items() if one.verdict == "VIOLATED"}
    if result.problems or violated - job.seen:
        attempts = folder / ATTEMPTS
        shutil.rmtree(attempts / job.key, ignore_errors=True)
        made = runner.keep(prepared, attempts, again, name=job.key, write=done.world.keep).path
    # The world is full of cycles: it goes now, not in the middle of the next seed.
    del done, verdicts
    gc.collect()
    return result, made


def _real(job: Job, prepared: Prepared, again: str, folder: Path) -> tuple[Result, Path]:
    """On processes or containers, as `holdfast run` does it."""
    run, verdicts = runner.attempt(prepared, folder / ATTEMPTS, again)
    if isinstance(verdicts, str):
        return _failed(job, prepared.plan, again, verdicts), run.path
    return results.of_verdicts(verdicts, run.read_manifest(), key=job.key), run.path


def _failed(job: Job, plan: Plan, again: str, reason: str) -> Result:
    """The result of a run that could not be executed; its plan may be incomplete."""
    options = job.plan.options if job.swarm else system_options(plan)
    return Result(
        key=job.key,
        system=results.variant(_identity(plan.system), options, "" if job.swarm else plan.resource),
        backend=plan.backend,
        workload=SWARM if job.swarm else plan.workload,
        nemesis=SWARM if job.swarm else _kinds(plan),
        seed=plan.seed,
        verdict="UNKNOWN",
        exit_code=EnvironmentFailed.exit_code,
        command=again,
        problems=(reason,),
        scenario=plan.scenario,
    )


def _identity(system: str) -> str:
    """The system's name as in an executed run; the file's name if it cannot be read (any more)."""
    try:
        return user_system.identity(system)
    except UsageError:
        return system


def _kinds(plan: Plan) -> str:
    drawn = [name for name, _ in plan.nemeses]
    return results.planned([*drawn, *(fault.do for fault in plan.faults)])


def _appear(made: Path, kept: Path) -> None:
    """Move a finished directory to its place."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(kept, ignore_errors=True)
    made.rename(kept)


def _zipped(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return buffer.getvalue()


def unpack(done: Done, folder: Path) -> Result:
    """Unpack the directory of a run from another machine."""
    if done.archive:
        part = folder / ATTEMPTS / f"{done.result.key}.part"
        shutil.rmtree(part, ignore_errors=True)
        with zipfile.ZipFile(io.BytesIO(done.archive)) as archive:
            archive.extractall(part)
        _appear(part, folder / RUNS / done.result.key)
    return done.result


def clear(folder: Path) -> None:
    """Remove unfinished runs of a killed campaign; they are executed again.

    A run that is still healing and tearing down is not touched.
    """
    busy = {Path(run.run_dir) for run in registry.noted() if run.alive}
    for path in (folder / ATTEMPTS).glob("*"):
        if path.is_dir() and not path.is_symlink() and path.absolute() not in busy:
            shutil.rmtree(path, ignore_errors=True)


def tasks(
    jobs: Sequence[Job], folder: Path | None, processes: int, decided: Decided
) -> Iterator[Task]:
    """The jobs in order, simulated ones in batches that keep every process busy.

    decided: which cells need no more runs by now; their jobs are left out.
    """
    short = sum(job.swarm or job.plan.backend in catalogue.VIRTUAL_TIME for job in jobs)
    size = max(1, min(SEEDS_A_TASK, short // (2 * processes)))
    handful: list[Job] = []
    for job in jobs:
        if decided(job.cell):
            continue
        job = replace(job, seen=decided.seen(job.cell))
        if not (job.swarm or job.plan.backend in catalogue.VIRTUAL_TIME):
            yield Task(jobs=(job,), folder=folder)
            continue
        handful.append(job)
        if len(handful) == size:
            yield Task(jobs=tuple(handful), folder=folder)
            handful = []
    if handful:
        yield Task(jobs=tuple(handful), folder=folder)


def carry_out(
    jobs: Sequence[Job],
    folder: Path,
    processes: int,
    scheduler: str,
    enough: Callable[[], bool],
    decided: Decided,
) -> Iterator[list[Result]]:
    """Results as they come, until all jobs are done or it is `enough`.

    decided: which cells need no more runs; asked before each job.
    scheduler: address of a Dask scheduler, "" for processes of this machine. EnvironmentFailed if
    it cannot be reached, or a process of the pool died.
    """
    if not scheduler and processes == 1:
        with _collected_faster():
            for task in tasks(jobs, folder, 1, decided):
                if enough():
                    return
                for job in task.jobs:
                    # One by one: what is finished is kept if the next run is interrupted.
                    yield [done.result for done in work(replace(task, jobs=(job,)))]
        return
    with executor(scheduler, processes) as (pool, most):
        waiting = tasks(jobs, None if scheduler else folder, most, decided)
        try:
            for found in _flow(pool, waiting, 2 * most, enough):
                yield [unpack(done, folder) for done in found]
        except BrokenProcessPool as error:
            raise EnvironmentFailed(
                "a worker process died (out of memory?); repeat the command to resume the campaign"
            ) from error


@contextlib.contextmanager
def _collected_faster() -> Iterator[None]:
    """What lives already is not scanned in the collection after each simulated run, meanwhile."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _flow(
    executor: Executor, waiting: Iterator[Task], most: int, enough: Callable[[], bool]
) -> Iterator[list[Done]]:
    """Submits at most `most` tasks at a time, so that a stop takes effect soon.

    Tasks that have not started by then are cancelled.
    """
    out: set[Future[list[Done]]] = set()
    more = True
    while more or out:
        while more and len(out) < most:
            task = None if enough() else next(waiting, None)
            if task is None:
                more = False
                out = {future for future in out if not (enough() and future.cancel())}
            else:
                out.add(executor.submit(work, task))
        done, out = wait(out, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


@contextlib.contextmanager
def executor(scheduler: str, processes: int) -> Iterator[tuple[Executor, int]]:
    """An executor and its number of parallel tasks."""
    if scheduler:
        with _cluster(scheduler) as client:
            yield client.get_executor(pure=False, retries=0), sum(client.nthreads().values())
        return
    given = os.environ.get(seed_search.SAFE_PATH)
    # Its queues start a process too, so that the path is safe before the pool is made.
    with seed_search.safe_path(), signals.passed_on():
        pool = seed_search.Pool(
            processes, get_context("spawn"), initializer=_begin, initargs=(given,)
        )
        try:
            yield pool, processes
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(safe_path: str | None) -> None:
    """Prepares a pool process, which ends with the campaign however that ends (`warm_worker`).

    Its children get the user's own PYTHONSAFEPATH: a user's client may need its folder.
    """
    if safe_path is None:
        os.environ.pop(seed_search.SAFE_PATH, None)
    seed_search.warm_worker()


@contextlib.contextmanager
def _cluster(address: str) -> Iterator[Any]:
    reason = extras.problem("distributed")
    if reason is not None:
        raise UsageError(f"--scheduler {reason}")
    connect: Any = load("distributed:Client")
    try:
        client = connect(address, timeout=10, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise EnvironmentFailed(f"--scheduler {address}: connection failed: {error}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=WORKERS_WITHIN_S)
        except TimeoutError as error:
            raise EnvironmentFailed(
                f"--scheduler {address}: no workers; start one with dask worker {address}"
            ) from error
        yield client


def deadline(time_ns: int) -> Callable[[], bool]:
    """A function that returns whether this time has passed since the call; 0: never."""
    if not time_ns:
        return lambda: False
    over_s = time.monotonic() + time_ns / 1e9
    return lambda: time.monotonic() >= over_s
