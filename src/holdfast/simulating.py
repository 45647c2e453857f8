"""Many seeds in the simulator: each drawn, run and judged in memory, in several processes."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from holdfast import catalogue, swarm
from holdfast.commands import prepare
from holdfast.harness import history, judge
from holdfast.harness.case import Case
from holdfast.harness.entry import load
from holdfast.harness.errors import EnvironmentFailed
from holdfast.harness.plan import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class Seed:
    """What one seed came to.

    verdicts     property -> verdict
    alarms       (property, first sentence) of what is promised and violated
    limits       properties that are violated and were never promised
    problems     why its history may say too little; a node that ended by itself is one
    digest       hash of the history
    cpu_ns       of the simulated world, without the judge; judge_ns: of the judge
    """

    seed: int
    command: str
    verdicts: Mapping[str, str] = field(default_factory=dict)
    alarms: tuple[tuple[str, str], ...] = ()
    limits: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    digest: str = ""
    ops: int = 0
    events: int = 0
    virtual_ns: int = 0
    cpu_ns: int = 0
    judge_ns: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)


def one_seed(seed: int, system: str, given: Mapping[str, str]) -> Seed:
    """Draw, run and judge one seed. UsageError if the options given do not fit."""
    drawn = swarm.draw(seed, system, catalogue.SYSTEMS[system].nodes, given)
    return one_plan(prepare.complete(drawn), prepare.command(drawn))


@dataclass(frozen=True, kw_only=True, slots=True)
class Carried:
    """A simulated run and the judgement on it, all in memory; CPU times as in `Seed`."""

    simulated: Any
    case: Case
    judged: Mapping[str, Any]
    cpu_ns: int
    judge_ns: int


def carry(manifest: Mapping[str, Any]) -> Carried:
    """Run and judge in memory. EnvironmentFailed where the simulated servers do not come up."""
    begun = time.process_time_ns()
    simulated = load(manifest["entries"]["backend"])(manifest)
    ran = time.process_time_ns()
    recording = history.merge(load(catalogue.SIM_WRITTEN)(simulated))
    case = judge.case_of(manifest, recording, simulated.marks, simulated.faults)
    checkers = {prop: load(catalogue.CHECKERS[prop]) for prop in manifest["asks"]}
    return Carried(
        simulated=simulated,
        case=case,
        judged=judge.judge_case(manifest, case, checkers),
        cpu_ns=ran - begun,
        judge_ns=time.process_time_ns() - ran,
    )


def one_plan(plan: Plan, command: str) -> Seed:
    """Run and judge one complete plan in memory."""
    try:
        done = carry(prepare.manifest(plan, f"sim-{plan.seed}", command))
    except EnvironmentFailed as error:
        return Seed(seed=plan.seed, command=command, problems=(str(error),))
    simulated, case = done.simulated, done.case
    violated = [row for row in done.judged["verdicts"] if row["verdict"] == "VIOLATED"]
    found = Seed(
        seed=plan.seed,
        command=command,
        verdicts={row["property"]: row["verdict"] for row in done.judged["verdicts"]},
        alarms=tuple(
            (row["property"], row["findings"][0]["sentence"]) for row in violated if row["promised"]
        ),
        limits=tuple(row["property"] for row in violated if not row["promised"]),
        problems=tuple(case.history.problems),
        digest=simulated.digest,
        ops=len(case.history.rows),
        events=simulated.events,
        virtual_ns=simulated.virtual_ns,
        cpu_ns=done.cpu_ns,
        judge_ns=done.judge_ns,
        faults=Counter(window.do for window in case.windows if window.bit),
    )
    # The world is full of cycles: it goes now, not in the middle of the next seed.
    del simulated, case, done, violated
    gc.collect()
    return found


@dataclass(slots=True)
class Tally:
    """What many seeds came to together."""

    seeds: int = 0
    ops: int = 0
    events: int = 0
    virtual_ns: int = 0
    cpu_ns: int = 0
    judge_ns: int = 0
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    alarms: list[Seed] = field(default_factory=list)
    limits: Counter[str] = field(default_factory=Counter)
    problems: list[Seed] = field(default_factory=list)

    def add(self, seed: Seed) -> None:
        """Count one seed."""
        self.seeds += 1
        for name in ("ops", "events", "virtual_ns", "cpu_ns", "judge_ns"):
            setattr(self, name, getattr(self, name) + getattr(seed, name))
        for prop, verdict in seed.verdicts.items():
            self.verdicts.setdefault(prop, Counter())[verdict] += 1
        self.faults.update(seed.faults)
        self.limits.update(seed.limits)
        if seed.alarms:
            self.alarms.append(seed)
        if seed.problems:
            self.problems.append(seed)

    def unexercised(self) -> list[str]:
        """Properties that were violated nowhere and held in no seed: nothing is known of them."""
        return sorted(
            prop
            for prop, found in self.verdicts.items()
            if not found["HOLDS"] and not found["VIOLATED"]
        )

    def exit_code(self) -> int:
        """1 something promised is violated; 3 a property or a run says nothing; else 0."""
        if self.alarms:
            return 1
        return 3 if self.problems or self.unexercised() or not self.seeds else 0


def warm() -> None:
    """Import all that a seed needs, and keep the collector from walking it after each of them."""
    for entry in (*catalogue.CHECKERS.values(), catalogue.BACKENDS["sim"].entry):
        load(entry)
    for row in catalogue.SYSTEMS.values():
        if row.simulated:
            load(row.simulated)
            load(load(row.entry).client)
    gc.collect()
    gc.freeze()


def explore(
    seeds: Iterator[int],
    system: str,
    given: Mapping[str, str],
    processes: int,
    enough: Callable[[], bool],
) -> Iterator[Seed]:
    """Seeds as they are done, until there are no more or it is `enough`."""
    act = partial(one_seed, system=system, given=given)
    if processes == 1:
        warm()
        for seed in seeds:
            yield act(seed)
            if enough():
                return
        return
    with ProcessPoolExecutor(processes, initializer=warm) as pool:
        yield from _in_pool(pool, seeds, act, 2 * processes, enough)


def _in_pool(
    pool: ProcessPoolExecutor,
    seeds: Iterator[int],
    act: Callable[[int], Seed],
    most: int,
    enough: Callable[[], bool],
) -> Iterator[Seed]:
    """At most `most` seeds under way at a time, so that an end comes soon after it is asked for."""
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
