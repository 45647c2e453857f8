"""A hunt: searches for violations, then confirms, bisects and shrinks what it found, in time."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from holdfast.harness.core.clock import SECOND
from holdfast.harness.plans.plan import Plan
from holdfast.hunting import findings, releases, trying
from holdfast.hunting.agenda import Agenda, Trial, at_release
from holdfast.hunting.findings import Found, Occurrence
from holdfast.hunting.situations import SITUATIONS, Situation
from holdfast.hunting.subject import Subject
from holdfast.hunting.trying import HuntRun, Smaller

RESERVED, RESERVED_EACH = 0.4, 0.15
"""Part of the budget that is kept for the work on findings, at most and for each of them. While
nothing was found the search goes on."""
BISECT = 0.9
"""Part of the budget after which no other release is tried."""
CONFIRMING = 3
"""Runs of a plan that tell how often it shows its finding, the first one included."""
TRIES = 2
"""Runs of a release in which the property holds until it counts as clean."""
INCONCLUSIVE = 2
"""Further runs of a release in which the property may be untested."""
AROUND_S, LATEST, MARGIN = 8.0, 8, 1.3
"""First guess of the time that a run needs besides its workload; the number of latest runs whose
mean counts instead; the factor for those that need longer. A run that began is not cut off, so a
hunt may exceed its budget by a part of one run."""
LEAST_SHRINK_S = 20.0
"""With less time left for each finding, none is shrunk."""

LOOKAHEAD = 40
"""Runs of the agenda that are looked at for one that still fits: more than there are situations."""

Step: TypeAlias = Generator[Callable[[], object], object, None]
"""Work on one finding: yields what to execute in the pool, is sent its result."""


@dataclass(kw_only=True, slots=True)
class Hunted:
    """The state of a hunt, complete at any time.

    situations those that this machine can run; left_out: the others, each with the reason
    trials     runs of the search that ended, each with its result
    found      its findings, the worst first
    confirmed  number of runs made for findings
    ended      "" if it used its budget, else what stopped it
    """

    subject: Subject
    seed: int
    budget_ns: int
    situations: Mapping[str, Situation] = field(default_factory=lambda: SITUATIONS)
    left_out: Mapping[str, str] = field(default_factory=dict)
    trials: list[tuple[Trial, HuntRun]] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    confirmed: int = 0
    took_s: float = 0.0
    ended: str = ""

    @property
    def tested(self) -> bool:
        """Whether any run exercised a property."""
        return any(ran.tested for _, ran in self.trials)

    @property
    def starved(self) -> int:
        """Runs in which a property was not tested because other processes took the CPU."""
        return sum(ran.starved for _, ran in self.trials)

    @property
    def errors(self) -> dict[str, int]:
        """Why runs could not be executed -> how many."""
        counted: dict[str, int] = {}
        for _, ran in self.trials:
            if ran.error:
                counted[ran.error] = counted.get(ran.error, 0) + 1
        return counted


class Hunt:
    """Executes a hunt in a pool of processes.

    limit   of runs in the search, 0 for none: the budget ends it
    tell    receives lines of progress; ran: is called after each run
    """

    def __init__(
        self,
        hunted: Hunted,
        out: Path,
        pool: Executor,
        processes: int,
        tell: Callable[[str], None],
        limit: int = 0,
        ran: Callable[[], object] = lambda: None,
    ) -> None:
        self._ran = ran
        self._hunted, self._out, self._pool, self._tell = hunted, out, pool, tell
        self._processes, self._limit = processes, limit
        self._starved: list[Trial] = []
        self._passed = False
        self._begun = time.monotonic()
        self._arounds_s = deque([AROUND_S], LATEST)

    def carry_out(self) -> None:
        """Search, then work on the findings; `Hunted` is filled meanwhile."""
        try:
            self._search()
            promised = [one for one in self._hunted.found if one.first.promised]
            self._work([self._confirm(one) for one in promised for _ in range(CONFIRMING - 1)])
            self._work([self._bisect(one) for one in promised])
            self._shrink(promised)
        except KeyboardInterrupt:
            self._hunted.ended = "interrupted"
        self._hunted.took_s = time.monotonic() - self._begun

    def _left_s(self, part: float = 1.0) -> float:
        """Time until this part of the budget is used."""
        return self._hunted.budget_ns / SECOND * part - (time.monotonic() - self._begun)

    def _fits(self, plan: Plan, part: float) -> bool:
        """Whether a run ends before this part of the budget is used."""
        return plan.time_ns / SECOND + self._around_s() <= self._left_s(part)

    def _around_s(self) -> float:
        """The time that a run needs besides its workload."""
        return MARGIN * sum(self._arounds_s) / len(self._arounds_s)

    def _search(self) -> None:
        hunted = self._hunted
        agenda = Agenda(hunted.subject, hunted.seed, hunted.situations)
        waiting, out = agenda.runs(), dict[Future[HuntRun], Trial]()
        made, more = 0, True
        while more or out:
            while more and len(out) < self._processes:
                trial = self._next(waiting, agenda) if self._may(made) else None
                if trial is None:
                    more = False
                    break
                made += 1
                out[self._pool.submit(trying.run, trial.plan, self._out)] = trial
            done = wait(out, return_when=FIRST_COMPLETED)[0]
            for future in done:
                self._add(out.pop(future), future.result(), agenda)

    def _may(self, made: int) -> bool:
        return not self._limit or made < self._limit

    def _next(self, waiting: Iterator[Trial], agenda: Agenda) -> Trial | None:
        """The next run that fits; None if none of the following ones does."""
        for trial in self._following(waiting):
            if trial.variant in agenda.left() and self._fits(trial.plan, self._part()):
                return trial
        return None

    def _following(self, waiting: Iterator[Trial]) -> Iterator[Trial]:
        """The first pass over the situations; then runs are repeated for which the CPU was too
        busy, as other processes may have ended meanwhile; then the other runs."""
        while self._starved and self._passed:
            yield self._starved.pop(0)
        for trial in itertools.islice(waiting, LOOKAHEAD):
            self._passed = trial.turn > 0
            yield trial
        while self._starved:
            yield self._starved.pop(0)

    def _part(self) -> float:
        """Part of the budget that the search may use, as far as it has found."""
        promised = sum(one.first.promised for one in self._hunted.found)
        return 1 - min(RESERVED, RESERVED_EACH * promised)

    def _add(self, trial: Trial, ran: HuntRun, agenda: Agenda) -> None:
        """A run of the search that ended."""
        seen = tuple(
            replace(
                one, needs=trial.variant.options, situation=trial.situation, release=trial.release
            )
            for one in ran.seen
        )
        ran = replace(ran, seen=seen)
        if not ran.error:
            self._arounds_s.append(max(0.0, ran.took_s - trial.plan.time_ns / SECOND))
            unused = not ran.grants and not trial.plan.nemeses and not seen
        else:
            unused = ran.refused and trial.release == self._hunted.subject.release
        if unused:
            agenda.drop(trial.variant)
        elif not trial.plan.nemeses and any(map(_two_holders, seen)):
            agenda.settled(trial.variant)
        repeated = any(other is trial for other, _ in self._hunted.trials)
        if ran.starved and not any(one.promised for one in seen) and not repeated:
            self._starved.append(trial)
            self._processes = max(1, self._processes - 1)
        self._hunted.trials.append((trial, ran))
        before = len(self._hunted.found)
        every = [one for _, done in self._hunted.trials for one in done.seen]
        self._hunted.found = findings.distinct(every)
        new = len(self._hunted.found) - before
        self._tell(_line(trial, ran, new))
        self._ran()

    def _work(self, steps: list[Step]) -> None:
        """Drives the work on several findings at once."""
        out: dict[Future[object], Step] = {}
        ready: list[tuple[Step, object]] = [(step, None) for step in steps]
        while ready or out:
            while ready and len(out) < self._processes:
                step, result = ready.pop(0)
                try:
                    task = step.send(result)
                except StopIteration:
                    continue
                out[self._pool.submit(task)] = step
            if not out:
                continue
            for future in wait(out, return_when=FIRST_COMPLETED)[0]:
                ready.append((out.pop(future), future.result()))
                self._ran()

    def _confirm(self, found: Found) -> Step:
        """Repeat the plan of a finding once, with exactly the same faults."""
        plan = self._plan_of(found.first)
        if not self._fits(plan, 1.0):
            return
        ran = yield partial(trying.run, plan, self._out)
        assert isinstance(ran, HuntRun)
        self._hunted.confirmed += 1
        shows = findings.shows(ran.seen, found.first)
        if shows or not (ran.error or ran.starved):
            found.runs += 1
            found.again += shows

    def _bisect(self, found: Found) -> Step:
        """Look for the first and last bad release; the span is kept if both ends were found."""
        subject = self._hunted.subject
        if not found.first.prop:
            found.unbisected = "no property is violated"
            return
        if subject.own:
            found.unbisected = "a lock of your own has no releases"
            return
        search = releases.bisect(subject.releases, found.first.release)
        try:
            name = next(search)
            while True:
                bad = yield from self._try_release(found, name)
                if found.unbisected:
                    return
                name = search.send(bad)
        except StopIteration as end:
            found.span = end.value

    def _try_release(
        self, found: Found, name: str
    ) -> Generator[Callable[[], object], object, releases.Bad]:
        """Whether a release shows a finding; a reason in `unbisected` if that stays unknown."""
        plan = at_release(self._plan_of(found.first), self._hunted.subject.library(name))
        wanted = TRIES + (found.again < found.runs)
        clean = 0
        for _ in range(wanted + INCONCLUSIVE):
            if not self._fits(plan, BISECT):
                found.unbisected = "no time left"
                return None
            ran = yield partial(trying.run, plan, self._out)
            assert isinstance(ran, HuntRun)
            self._hunted.confirmed += 1
            if ran.refused:
                return None
            if findings.shows(ran.seen, found.first):
                return True
            clean += found.first.prop in ran.held
            if clean == wanted:
                return False
        found.unbisected = f"{name} was inconclusive"
        return None

    def _shrink(self, promised: list[Found]) -> None:
        """Shrink the plans of findings with the time that is left, the worst first."""
        count = min(len(promised), max(1, int(self._left_s() / LEAST_SHRINK_S) * self._processes))
        rounds = -(-count // self._processes) if count else 0
        for n in range(rounds):
            part = promised[:count][n * self._processes : (n + 1) * self._processes]
            # A candidate that has begun when its time is over still runs to its end.
            longest = max(self._plan_of(one.first).time_ns / SECOND for one in part)
            share_s = self._left_s() / (rounds - n) - longest - self._around_s()
            if share_s > 0:
                self._work([self._smaller(one, int(share_s * SECOND)) for one in part])

    def _smaller(self, found: Found, budget_ns: int) -> Step:
        plan = self._plan_of(found.first)
        small = yield partial(trying.shrink, plan, found.first, budget_ns, self._out)
        if isinstance(small, Smaller):
            found.shrunk, found.size = small.file, small.size
            self._hunted.confirmed += small.runs

    def _plan_of(self, one: Occurrence) -> Plan:
        """The complete plan of the run that showed it."""
        return next(ran.plan for _, ran in self._hunted.trials if ran.run == one.run)


def _two_holders(one: Occurrence) -> bool:
    return one.promised and one.prop == "mutual-exclusion"


def _line(trial: Trial, ran: HuntRun, new: int) -> str:
    """Progress: one run."""
    way = f" {trial.variant.words}" if trial.variant.words else ""
    what = f"{trial.number}: {trial.situation}, {trial.release} on {trial.variant.system}{way}"
    if ran.error:
        return f"{what}: not executed: {ran.error}"
    names = ", ".join(dict.fromkeys(one.name for one in ran.seen)) or "no finding"
    return f"{what}: {names}" + (f" ({new} new)" if new > 0 else "")
