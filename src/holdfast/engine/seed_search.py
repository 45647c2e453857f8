"""Samples, simulates and judges many seeds in memory, in several processes."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast import catalogue
from holdfast.catalogue.mutants import MUTANTS, Mutant
from holdfast.engine import judging, swarm
from holdfast.engine.determinism import difference
from holdfast.engine.swarm import Way
from holdfast.harness.core.case import Case
from holdfast.harness.core.errors import EnvironmentFailed, HoldfastError
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.loading import load
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.history import reader
from holdfast.harness.judging.run_case import case_of
from holdfast.harness.plans.manifest import Manifest, to_table
from holdfast.harness.runs import signals
from holdfast.harness.verdicts.judged import Departure, Judged, Judgement
from holdfast.harness.verdicts.specification import Specification
from holdfast.harness.verification import verify
from holdfast.harness.verification.recorded_rows import Rows, Writer
from holdfast.lenses.certificates import certifier
from holdfast.planning import prepare
from holdfast.planning.resolve import Prepared

if TYPE_CHECKING:
    from holdfast.clusters.backends.sim.observed.observer import Observation

SAFE_PATH = "PYTHONSAFEPATH"
COLLECTED_AFTER = 100_000
"""New objects until the GC looks for cycles: few seeds make as many, and it runs after each."""
ENDED_BY_ASSERTION = "exited unexpectedly: AssertionError"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seed:
    """Result of one seed.

    verdicts     property -> verdict
    alarms       (property, first sentence) of violated promises
    shown        (property, kind of finding, first sentence) of violated promises
    found        how it shows the planted bug, "" if it does not
    limits       properties that are violated and were never promised
    problems     why its history may be incomplete, such as a node that exited unexpectedly
    digest       hash of the history; twice: whether it was re-run in another process
    differs      first difference of the re-run, "" if equal
    cpu_ns       of the simulated world, without the judge; judge_ns: of the judge
    workload     the workload that was given or chosen by --since; "": sampled as usual
    departure    the first step of a server that its specification does not allow; None for none
    steps        number of steps that were validated; trace_ns: CPU time to validate them
    """

    seed: int
    command: str
    workload: str = ""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    alarms: tuple[tuple[str, str], ...] = ()
    shown: tuple[tuple[str, str, str], ...] = ()
    found: str = ""
    limits: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    digest: str = ""
    twice: bool = False
    differs: str = ""
    ops: int = 0
    events: int = 0
    virtual_ns: int = 0
    cpu_ns: int = 0
    judge_ns: int = 0
    departure: Departure | None = None
    steps: int = 0
    trace_ns: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One simulated run in memory: its world, its case, its verdict object, CPU time of both.

    departed   number of the event of the trace at which the servers depart, -1 for none
    """

    world: Any
    case: Case
    verdicts: Judged
    cpu_ns: int
    judge_ns: int
    departure: Departure | None = None
    departed: int = -1
    steps: int = 0
    trace_ns: int = 0


def in_memory(
    manifest: Manifest, *, validated: bool = False, observer: Observation | None = None
) -> Ran:
    """Run and judge a manifest in this process; EnvironmentFailed if the cluster did not start.

    validated   validate each step of the servers too, if the system has a specification and keeps
                what is on its disks
    observer    gets each step of the simulated run; None: no step is recorded
    """
    reverts = any(one.reverts for one in manifest.traits.values())
    specified = validated and not reverts
    entry = catalogue.SYSTEMS[manifest.plan.system].specification if specified else ""
    trace: list[object] | None = None
    if entry:
        trace = [] if observer is None else observer.trace
    begun_ns = time.process_time_ns()
    world = load(manifest.entries.backend)(manifest, trace=trace, observer=observer)
    ran_ns = time.process_time_ns()
    departure, departed, steps = None, -1, 0
    if trace is not None:
        plan, specification = manifest.plan, cast(Specification, load(entry))
        events = iter(trace)
        departure = specification(
            events, nodes=plan.nodes, options=manifest.options.system, settled=world.settled
        )
        departed = -1 if departure is None else len(trace) - 1 - sum(1 for _ in events)
        steps = len(trace)
        if observer is None:
            # Now, while it is in no cycle: later it costs the garbage collector more.
            trace.clear()
    traced_ns = time.process_time_ns()
    written = world.written()
    recording = reader.merge(written)
    case = case_of(manifest, recording, world.marks, world.faults)
    certifies = certifier()
    verdicts = judging.judge_in_memory(manifest, case, certifies)
    _verify(manifest, written, world, verdicts, bytes(certifies.orders))
    if departure is not None:
        departure = replace(departure, t_ns=departure.t_ns - verdicts.start_ns)
    return Ran(
        world=world,
        case=case,
        verdicts=verdicts,
        cpu_ns=ran_ns - begun_ns,
        judge_ns=time.process_time_ns() - traced_ns,
        departure=departure,
        departed=departed,
        steps=steps,
        trace_ns=traced_ns - ran_ns,
    )


def _verify(
    manifest: Manifest,
    written: Sequence[reader.Written],
    world: Any,
    verdicts: Judged,
    orders: bytes,
) -> None:
    """HoldfastError if the verifier rejects a certificate of a seed with a finding."""
    if not any(row.findings for row in verdicts.verdicts):
        return
    writers = [
        Writer(
            str(one.meta["writer"]),
            str(one.meta.get("node", one.meta["writer"])),
            [int(process) for process in one.meta.get("processes", ())],
            bytes(one.rows),
            one.strings,
        )
        for one in written
    ]
    journals = plain(world.faults), plain(world.marks)
    run = verify.run_of(Rows(writers), to_table(manifest), *journals)
    outcome = verify.verify(run, plain(verdicts), orders)
    if outcome.refused:
        raise HoldfastError(
            f"seed {manifest.plan.seed}: internal error: the verifier rejects a certificate:"
            f" {outcome.refused[0]}; please report it"
        )


def one_seed(
    seed: int,
    system: str,
    given: Mapping[str, str],
    workload: str = "",
    twice_every: int = 0,
    *,
    validated: bool = False,
    weights: Mapping[str, float] | None = None,
    way: Way = Way.PLAIN,
) -> Seed:
    """Sample, run and judge one seed. UsageError for invalid options.

    twice_every   seeds that are a multiple of it are re-run in another process; 0: none
    validated     validate the steps of the servers too
    weights       relative frequency of each workload; None: the usual
    way           how the seed is drawn
    """
    nodes = catalogue.SYSTEMS[system].nodes
    if weights and not workload:
        workload = swarm.weighted_workload(seed, weights)
    drawn = swarm.draw(seed, system, nodes, given, workload, way)
    twice = bool(twice_every) and seed % twice_every == 0
    again = prepare.command(drawn)
    ran = one_plan(prepare.prepared(drawn), again, twice=twice, validated=validated)
    ran = replace(ran, workload=workload)
    mutant = MUTANTS.get(given.get("mutant", ""))
    if mutant is None:
        return ran
    if not shows(mutant, system, ran, None):
        return replace(ran, found=_departs(ran))
    # The same seed without the bug: what that shows as well is not the bug's doing.
    without = {name: text for name, text in given.items() if name != "mutant"}
    twin = swarm.draw(seed, system, nodes, without, workload, way)
    plain = one_plan(prepare.prepared(twin), prepare.command(twin))
    return replace(ran, found=shows(mutant, system, ran, plain) or _departs(ran))


def shows(mutant: Mutant, system: str, ran: Seed, plain: Seed | None) -> str:
    """How a seed shows a planted bug, "" if it does not.

    A failed assertion of a node shows it, whatever the catalogue names. A property
    shows it only by a kind of finding that is not a known issue of the system without the bug, and
    that the same seed without the bug does not have; plain: that run, None if not made yet.
    """
    asserted = _assertion(ran)
    if asserted and not (plain and _assertion(plain)):
        return f"a node's own assertion failed: {asserted}"
    known = {*catalogue.SYSTEMS[system].known}
    known |= {(prop, kind) for prop, kind, _ in plain.shown} if plain else set()
    for prop, kind, sentence in ran.shown:
        if prop == mutant.breaks and (prop, kind) not in known:
            return f"{prop} ({kind}): {sentence}"
    return ""


def _departs(seed: Seed) -> str:
    """How a seed shows a planted bug by the trace alone, "" if it does not."""
    return f"departs from the specification: {seed.departure.sentence}" if seed.departure else ""


def _assertion(seed: Seed) -> str:
    """The first problem of a node with a failed assertion, "" for none."""
    return next((text for text in seed.problems if ENDED_BY_ASSERTION in text), "")


def _shown(violated: Iterable[Judgement]) -> Iterator[tuple[str, str, str]]:
    """(property, kind, its first sentence) of violated promises."""
    for row in violated:
        firsts: dict[str, str] = {}
        for finding in row.findings if row.promised else ():
            firsts.setdefault(finding.kind, finding.sentence)
        for kind, sentence in firsts.items():
            yield row.property, kind, sentence


def one_plan(
    prepared: Prepared, command: str, *, twice: bool = False, validated: bool = False
) -> Seed:
    """Run and judge one complete plan in memory; `twice`: re-run it in another process.

    validated   validate the steps of the servers too
    """
    plan = prepared.plan
    manifest = prepare.manifest(prepared, f"sim-{plan.seed}", command)
    try:
        ran = in_memory(manifest, validated=validated)
    except EnvironmentFailed as error:
        return Seed(seed=plan.seed, command=command, problems=(str(error),))
    simulated, case, judged = ran.world, ran.case, ran.verdicts
    violated = [row for row in judged.verdicts if row.verdict is Verdict.VIOLATED]
    found = Seed(
        seed=plan.seed,
        command=command,
        verdicts={row.property: str(row.verdict) for row in judged.verdicts},
        alarms=tuple((row.property, row.findings[0].sentence) for row in violated if row.promised),
        shown=tuple(_shown(violated)),
        limits=tuple(row.property for row in violated if not row.promised),
        problems=tuple(case.history.problems),
        digest=simulated.digest,
        twice=twice,
        differs=difference(manifest, simulated, case.history) if twice else "",
        ops=len(case.history.rows),
        events=simulated.events,
        virtual_ns=simulated.virtual_ns,
        cpu_ns=ran.cpu_ns,
        judge_ns=ran.judge_ns,
        departure=ran.departure,
        steps=ran.steps,
        trace_ns=ran.trace_ns,
        faults=Counter(window.do for window in case.windows if window.effective),
    )
    # The world is full of cycles: it goes now, not in the middle of the next seed.
    del ran, simulated, case, judged, violated
    gc.collect()
    return found


@dataclass(slots=True)
class SeedTally:
    """Summary of many seeds."""

    seeds: int = 0
    ops: int = 0
    events: int = 0
    virtual_ns: int = 0
    cpu_ns: int = 0
    judge_ns: int = 0
    steps: int = 0
    trace_ns: int = 0
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    alarms: list[Seed] = field(default_factory=list)
    found: list[Seed] = field(default_factory=list)
    departing: list[Seed] = field(default_factory=list)
    limits: Counter[str] = field(default_factory=Counter)
    problems: list[Seed] = field(default_factory=list)
    differing: list[Seed] = field(default_factory=list)
    twice: int = 0

    def add(self, seed: Seed) -> None:
        """Count one seed."""
        self.seeds += 1
        for name in ("ops", "events", "virtual_ns", "cpu_ns", "judge_ns", "steps", "trace_ns"):
            setattr(self, name, getattr(self, name) + getattr(seed, name))
        for prop, verdict in seed.verdicts.items():
            self.verdicts.setdefault(prop, Counter())[verdict] += 1
        self.faults.update(seed.faults)
        self.limits.update(seed.limits)
        if seed.alarms:
            self.alarms.append(seed)
        if seed.found:
            self.found.append(seed)
        if seed.departure:
            self.departing.append(seed)
        if seed.problems:
            self.problems.append(seed)
        if seed.differs:
            self.differing.append(seed)
        self.twice += seed.twice

    def unexercised(self) -> list[str]:
        """Properties that were neither violated nor held in any seed."""
        return sorted(
            prop
            for prop, found in self.verdicts.items()
            if not found["HOLDS"] and not found["VIOLATED"]
        )

    def exit_code(self) -> int:
        """1 a promise was broken; 4 a seed gave two histories; 3 a property was not exercised, a
        run is incomplete, or a server departs from its specification; else 0."""
        if self.alarms:
            return 1
        if self.differing:
            return 4
        if self.problems or self.departing:
            return 3
        return 3 if self.unexercised() or not self.seeds else 0


def warm() -> None:
    """Prepare this process for simulation only: imports everything that a seed needs, makes
    values faster to create, and keeps the GC from scanning them after each seed, or often."""
    for entry in (*catalogue.CHECKERS.values(), catalogue.BACKENDS[swarm.BACKEND].entry):
        load(entry)
    for row in catalogue.SYSTEMS.values():
        if row.simulated:
            load(row.simulated)
            load(load(row.entry).client)
        if row.specification:
            load(row.specification)
    load(catalogue.SIM_UNGUARD)()
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER)


T = TypeVar("T")


class Pool(ProcessPoolExecutor):
    """A pool whose processes ^C ends without a word. They start in `submit`, with the signal
    blocked: until they have loaded their code it would raise in an import, a traceback for each.
    Their initializer, `warm_worker`, unblocks it. Another thread of this process still takes it, so
    that it is deferred here too: one that gets half of its input has a traceback."""

    def submit(self, fn: Callable[..., T], /, *args: object, **kwargs: object) -> Future[T]:
        """As `ProcessPoolExecutor`."""
        with signals.deferred():
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            try:
                return super().submit(fn, *args, **kwargs)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """A killed command shuts no pool down, and its processes would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def warm_worker() -> None:
    """The same in a process of a pool, which ^C ends at once: the command reports it. It ends with
    the command, however that ends."""
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    if not signals.disregarded(signal.SIGINT):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signals.end_here()  # A ^C that came meanwhile ends it here.
    warm()


@contextmanager
def safe_path() -> Iterator[None]:
    """Pool processes that are spawned meanwhile do not have the current folder on sys.path.

    multiprocessing starts them with `-c` and only with flags of this process.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def explore(
    seeds: Iterator[int],
    system: str,
    given: Mapping[str, str],
    processes: int,
    enough: Callable[[], bool],
    workload: str = "",
    twice_every: int = 0,
    *,
    validated: bool = False,
    weights: Mapping[str, float] | None = None,
    way: Way = Way.PLAIN,
) -> Iterator[Seed]:
    """Finished seeds, until there are no more or it is `enough`."""
    act = partial(
        one_seed,
        system=system,
        given=given,
        workload=workload,
        twice_every=twice_every,
        validated=validated,
        weights=weights,
        way=way,
    )
    if processes == 1:
        warm()
        for seed in seeds:
            yield act(seed)
            if enough():
                return
        return
    with (
        safe_path(),
        signals.passed_on(),
        Pool(processes, initializer=warm_worker) as pool,
    ):
        try:
            yield from _in_pool(pool, seeds, act, 2 * processes, enough)
        finally:
            pool.shutdown(cancel_futures=True)


def _in_pool(
    pool: Pool,
    seeds: Iterator[int],
    act: Callable[[int], Seed],
    most: int,
    enough: Callable[[], bool],
) -> Iterator[Seed]:
    """Runs at most `most` seeds at a time, so that a stop takes effect soon."""
    waiting: set[Future[Seed]] = set()
    more = True
    while more or waiting:
        while more and len(waiting) < most:
            seed = next(seeds, None)
            if seed is None or enough():
                more = False
            else:
                waiting.add(pool.submit(act, seed))
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda future: future.result().seed):
            yield future.result()
        more = more and not enough()
