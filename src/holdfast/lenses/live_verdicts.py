"""Judges a run while it goes on, in a thread of its own, and tells violations of promises.

Only what stays violated in a longer history is judged, and the verdict is still computed at the
end, from all rows. A promise counts if it holds under each kind of fault of the plan, begun or not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import click

from holdfast import catalogue
from holdfast.harness.core.case import Case, Checker
from holdfast.harness.core.clock import SECOND, now_ns
from holdfast.harness.core.errors import HoldfastError
from holdfast.harness.core.loading import load
from holdfast.harness.core.verdict import Finding, promised
from holdfast.harness.history.beside_run import BesideRun
from holdfast.harness.history.growing import Growing
from holdfast.harness.history.reader import Recording
from holdfast.harness.judging.lens import Lens, Watch
from holdfast.harness.judging.run_case import case_of, kinds_of, options_of
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs import journal
from holdfast.harness.runs.directory import RunDir

BEFORE_THE_END = (
    "mutual-exclusion",
    "no-stale-write",
    "no-expired-write",
    "token-order",
    "applied-once",
)
"""Properties whose violation stays one in a longer history."""
NEEDS_ALL_ROWS = ("no-expired-write",)
"""Of these, the ones that are not judged once rows were dropped: a heartbeat that was dropped may
have extended the lease of a session."""
EVERY_S, SELDOM_S = 0.4, 0.8
"""Least and longest time between two looks."""
SHARE = 1 / 20
"""Of a core: the more a look costs, the longer it is until the next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """The first violation of a property in a run that goes on.

    at_ns      when it was, from the start of the workload
    after_ns   how much later it was found
    rows       how many rows had been recorded; dropped: how many of them were no longer looked at
    """

    property: str
    sentence: str
    at_ns: int
    after_ns: int
    rows: int
    dropped: int


def case_so_far(run: RunDir, manifest: Manifest, recording: Recording, instant: int) -> Case:
    """What can be judged of a run at a time up to which its recording reaches."""
    faults = [row for row in journal.faults(run) if (row.t_ns or 0) <= instant]
    case = case_of(manifest, recording, journal.marks(run), faults)
    asked = [prop for prop in case.asked if prop in BEFORE_THE_END]
    return replace(case, asked=asked, end_ns=max(case.end_ns, instant))


def promised_throughout(manifest: Manifest, prop: str) -> bool:
    """Whether the system promises a property under all kinds of fault of the plan: whether one that
    is not healed yet takes effect is unknown."""
    kinds = kinds_of(manifest.plan)
    return promised(prop, manifest.promises, options_of(manifest), kinds)


def judged_early(manifest: Manifest) -> list[str]:
    """The properties that a run is judged by while it goes on."""
    asked = [prop for prop in BEFORE_THE_END if prop in manifest.asks]
    return [prop for prop in asked if promised_throughout(manifest, prop)]


class LiveJudge(BesideRun):
    """Judges a run from entry to exit; `tell` is called in its thread, once per property.

    The run's clients have to be on this machine: it reads their segments while they are written.
    """

    def __init__(self, run: RunDir, manifest: Manifest, tell: Callable[[Violation], None]) -> None:
        super().__init__("live verdicts")
        self._run = run
        self._manifest = manifest
        self._tell = tell
        self._history = Growing(run.history)
        self._told: set[str] = set()
        self.problem = ""

    def work(self) -> None:
        """Judges what is there, the more seldom the longer that takes."""
        wait_s = EVERY_S
        checkers = {prop: load(catalogue.CHECKERS[prop]) for prop in judged_early(self._manifest)}
        while checkers and not self.over.wait(wait_s):
            begun_s = time.thread_time()
            try:
                self._look(checkers)
            except (HoldfastError, ArithmeticError, LookupError, TypeError, ValueError) as error:
                # The run, and its verdict at the end, do not depend on this thread.
                self.problem = f"{type(error).__name__}: {error}"
                return
            spent_s = time.thread_time() - begun_s
            wait_s = min(max(EVERY_S, spent_s / SHARE), SELDOM_S)

    def _look(self, checkers: Mapping[str, Checker]) -> None:
        instant = now_ns()
        recording = self._history.until(instant)
        if recording is None or not len(recording.history.rows):
            return
        case = case_so_far(self._run, self._manifest, recording, instant)
        for prop, checker in checkers.items():
            if prop in self._told or (prop in NEEDS_ALL_ROWS and self._history.dropped):
                continue
            found = checker(case).findings
            if found:
                self._told.add(prop)
                self._tell(self._violation(prop, found, case.start_ns))

    def _violation(self, prop: str, found: Sequence[Finding], start_ns: int) -> Violation:
        first = min(found, key=lambda finding: finding.t_ns)
        return Violation(
            property=prop,
            sentence=first.sentence,
            at_ns=first.t_ns - start_ns,
            after_ns=now_ns() - first.t_ns,
            rows=self._history.seen,
            dropped=self._history.dropped,
        )


def so_far(violation: Violation, *, ends: bool) -> str:
    """The line about a violation in a run that goes on."""
    rows = f"{violation.rows} operations"
    if violation.dropped:
        rows = f"the newest {violation.rows - violation.dropped} of {rows}"
    return (
        f"  violated at {violation.at_ns / SECOND:.3f} s, seen {violation.after_ns / SECOND:.1f} s"
        f" later in {rows}: {violation.property}: {violation.sentence}"
        f"{'; the workload ends' if ends else ''}"
    )


def blind(manifest: Manifest) -> str:
    """Why no violation is seen before the end of the run, "" if it may be."""
    plan, row = manifest.plan, catalogue.BACKENDS[manifest.plan.backend]
    if row.virtual_time or row.hosts_file:
        return f"runs on backend {plan.backend} are judged at their end only"
    if not judged_early(manifest):
        faults = ", ".join(name for name, _ in plan.nemeses) or "these options"
        return f"{plan.system} promises nothing under {faults} that is judged before the end"
    return ""


class LiveVerdicts(Lens):
    """Tells violations while a run goes on, and ends its workload if the user wants that."""

    @contextmanager
    def during(self, run: RunDir, manifest: Manifest, watch: Watch) -> Iterator[None]:
        """Judges what is recorded so far, where the rows are written on this machine."""
        why = blind(manifest)
        if why and watch.until_violation:
            watch.tell(f"note: --until-violation has no effect: {why}")
        if why or (watch.quiet and not watch.until_violation):
            yield
            return

        def tell(violation: Violation) -> None:
            watch.tell(so_far(violation, ends=watch.until_violation))
            if watch.until_violation:
                watch.end_workload()

        with LiveJudge(run, manifest, tell) as live:
            yield
        if live.problem:
            click.echo(f"holdfast: not judged while it ran: {live.problem}", err=True)


LIVE_VERDICTS = LiveVerdicts()
