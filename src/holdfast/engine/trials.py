"""Runs one complete plan and returns its findings.

In the simulator a trial stays in memory; elsewhere it is an ordinary run on disk.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.catalogue import VIRTUAL_TIME
from holdfast.engine import runner
from holdfast.engine.seed_search import in_memory
from holdfast.harness.core.case import History
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.plans import shrink
from holdfast.harness.plans.manifest import OWN, Origin
from holdfast.harness.plans.plan import Plan
from holdfast.harness.plans.shrink import Failing
from holdfast.harness.verdicts.judged import Judged
from holdfast.planning import prepare
from holdfast.planning.resolve import hosts_of, resolve

ENDED = "exited unexpectedly"
"""Text of a problem that is also a finding: an assertion of a node failed."""
REPEATS = 3
"""Maximum number of runs per candidate outside of the simulator."""


class OutOfTime(Exception):
    """The budget is exhausted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """One kind of finding of a trial. prop "" and kind ENDED: a node exited unexpectedly.

    after_ns   time of the first of its kind, after the start of the run
    """

    prop: str
    kind: str
    sentence: str
    promised: bool
    after_ns: int

    @property
    def name(self) -> str:
        """Property and kind as text: the identity of a finding."""
        return f"{self.prop}: {self.kind}" if self.prop else f"a node {self.kind}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """Result of one run.

    history, digest, cpu_ns   in the simulator only: its history, hash of it, and CPU time
    run                       elsewhere: its folder
    """

    shown: tuple[Shown, ...]
    problems: tuple[str, ...]
    exit_code: int
    history: History | None = None
    digest: str = ""
    run: str = ""
    cpu_ns: int = 0


def of_verdicts(judged: Judged) -> tuple[Shown, ...]:
    """The kinds of finding in a verdict object, worst first: promised before never promised."""
    found: dict[tuple[str, str], Shown] = {}
    for row in judged.verdicts:
        for each in row.findings if row.verdict is Verdict.VIOLATED else ():
            shown = Shown(
                prop=row.property,
                kind=each.kind,
                sentence=each.sentence,
                promised=row.promised,
                after_ns=max(0, each.t_ns - judged.start_ns),
            )
            first = found.setdefault((shown.prop, shown.kind), shown)
            if shown.after_ns < first.after_ns:
                found[shown.prop, shown.kind] = shown
    ended = [text for text in judged.problems if ENDED in text]
    if ended:
        # A node's end has no row in the history: only that it came about in the run is known.
        over_ns = judged.stop_ns - judged.start_ns
        found["", ENDED] = Shown(
            prop="", kind=ENDED, sentence=ended[0], promised=True, after_ns=over_ns
        )
    return tuple(sorted(found.values(), key=lambda shown: not shown.promised))


def simulated(plan: Plan, only: Collection[str] = ()) -> Trial:
    """Run one complete plan in the simulator. only: judge these properties, () for all."""
    manifest = prepare.manifest(resolve(plan), f"sim-{plan.seed}", "")
    if only:
        manifest = replace(manifest, asks=[prop for prop in manifest.asks if prop in only])
    ran = in_memory(manifest)
    trial = Trial(
        shown=of_verdicts(ran.verdicts),
        problems=tuple(ran.verdicts.problems),
        exit_code=ran.verdicts.exit_code,
        history=ran.case.history,
        digest=ran.world.digest,
        cpu_ns=ran.cpu_ns,
    )
    # The world is full of cycles: it goes now, not in the middle of the next one.
    del ran
    gc.collect()
    return trial


def carried_out(plan: Plan, out: Path, again: str, hosts: str = "", origin: Origin = OWN) -> Trial:
    """Run one complete plan outside of the simulator, judged, reported and kept under `out`.

    hosts: file of the machines, where the backend needs one; origin: of what it is an attempt.
    """
    machines = hosts_of(plan, hosts)
    verdicts = runner.carry_out(
        resolve(plan), out, again, quiet=True, hosts=machines, origin=origin
    )
    return Trial(
        shown=of_verdicts(verdicts),
        problems=tuple(verdicts.problems),
        exit_code=verdicts.exit_code,
        run=str(Path(verdicts.report).parent),
    )


def networks(plan: Plan, tries: int) -> Iterator[Plan]:
    """The plan with its own network seed first, then with others."""
    yield plan
    own = int(plan.options.get(shrink.NETWORK, 0))
    calm = {name: text for name, text in plan.options.items() if name != shrink.NETWORK}
    for number in [n for n in range(tries) if n != own][: tries - 1]:
        chosen = {shrink.NETWORK: str(number)} if number else {}
        yield replace(plan, options={**calm, **chosen})


@dataclass(slots=True)
class Tries:
    """An `Attempt` for one finding. `made` counts runs, `cpu_ns` the simulated ones.

    wanted   the finding that a failing candidate must show
    out      folder for runs outside the simulator; again: the command that they record
    hosts    file of their machines, where the backend needs one; origin: of what they are attempts
    enough   called before each run: whether the time is over
    """

    wanted: Shown
    out: Path
    again: str
    enough: Callable[[], bool]
    hosts: str = ""
    origin: Origin = OWN
    made: int = 0
    cpu_ns: int = 0

    def __call__(self, plan: Plan, tries: int) -> Failing | None:
        """Try it with several network seeds, or repeatedly outside the simulator.

        Returns how it failed, or None.
        Raises OutOfTime if there is no time left for a run.
        """
        if plan.backend in VIRTUAL_TIME:
            candidates = list(networks(plan, tries))
        else:
            candidates = [plan] * min(tries, REPEATS)
        for candidate in candidates:
            failing = self.once(candidate)
            if failing is not None:
                return failing
        return None

    def once(self, plan: Plan) -> Failing | None:
        """One run of a complete plan: how it failed, or None. OutOfTime."""
        if self.enough():
            raise OutOfTime
        self.made += 1
        begun = time.process_time_ns()
        try:
            if plan.backend in VIRTUAL_TIME:
                trial = simulated(plan, [self.wanted.prop] if self.wanted.prop else ())
            else:
                trial = carried_out(plan, self.out, self.again, self.hosts, self.origin)
        except EnvironmentFailed:
            return None
        finally:
            self.cpu_ns += time.process_time_ns() - begun
        for shown in trial.shown:
            same = (shown.prop, shown.kind) == (self.wanted.prop, self.wanted.kind)
            if same and shown.promised >= self.wanted.promised:
                return Failing(plan=plan, after_ns=shown.after_ns, sentence=shown.sentence)
        return None
