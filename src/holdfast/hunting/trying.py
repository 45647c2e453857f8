"""One run or one search for a smaller plan, in a process of the hunt's pool."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.engine import shrinker, trials
from holdfast.engine.trials import Shown
from holdfast.harness.campaigns import results
from holdfast.harness.core.errors import HoldfastError, UsageError
from holdfast.harness.core.verdict import STARVED, Verdict
from holdfast.harness.judging.stored import stored
from holdfast.harness.plans.manifest import Origin
from holdfast.harness.plans.plan import Plan
from holdfast.harness.runs.directory import RunDir
from holdfast.hunting.findings import Occurrence, occurrences
from holdfast.hunting.subject import Subject
from holdfast.planning import packages, prepare
from holdfast.planning.resolve import resolve

SHRUNK = "shrunk.toml"
NEWEST = 3
"""Releases that are tried until the one is used that the adapter was written for."""


def usable(subject: Subject, tell: Callable[[str], None]) -> Subject:
    """The subject with a release that the adapter works with: the one under test, or if that was
    not asked for, an older one. Fetches its packages. UsageError, EnvironmentFailed."""
    system = subject.variants[0].system
    older = subject.releases[subject.releases.index(subject.release) :]
    candidates = [subject.release] if subject.asked else [*older[:NEWEST], subject.fallback]
    problem: UsageError | None = None
    for release in dict.fromkeys(candidates):
        plan = Plan(system=system, options=subject.options(release))
        try:
            packages.fetch(resolve(plan))
        except UsageError as error:
            problem = problem or error
            tell(f"{subject.library(release)} is not used: {str(error).splitlines()[0]}")
        else:
            known = [*subject.releases]
            kept = known[known.index(release) :] if release in known else [release]
            return replace(subject, release=release, releases=known if subject.asked else kept)
    assert problem is not None
    raise problem


@dataclass(frozen=True, kw_only=True, slots=True)
class HuntRun:
    """A run of a hunt.

    plan       complete, with its exact faults
    held       properties that were tested and not violated; tested: whether any property was
    error      why it could not be executed, "" if it was; refused: because of its plan, so that it
               cannot be executed a second time either
    starved    whether a property was not tested because other processes took the CPU
    took_s     wall time
    """

    plan: Plan
    run: str = ""
    seen: tuple[Occurrence, ...] = ()
    held: tuple[str, ...] = ()
    tested: bool = False
    grants: int = 0
    effective: tuple[str, ...] = ()
    error: str = ""
    refused: bool = False
    starved: bool = False
    took_s: float = 0.0


def run(plan: Plan, out: Path) -> HuntRun:
    """Run, judge and report a plan. Errors of Holdfast are part of the result."""
    begun = time.monotonic()
    try:
        with _silent():
            plan = prepare.complete(plan)
            library = plan.options.get("library", plan.system).partition("==")[0]
            origin = Origin(of=f"hunt of {library}", by="hunt")
            made = trials.carried_out(plan, out, prepare.command(plan), origin=origin)
        kept = RunDir(Path(made.run))
        judged = stored(kept)
        result = results.of_verdicts(judged, kept.read_manifest())
    except HoldfastError as error:
        return HuntRun(
            plan=plan,
            error=str(error).splitlines()[0],
            refused=isinstance(error, UsageError),
            took_s=time.monotonic() - begun,
        )
    return HuntRun(
        plan=plan,
        run=made.run,
        seen=tuple(replace(one, run=made.run) for one in occurrences(judged)),
        held=tuple(row.property for row in judged.verdicts if row.verdict is Verdict.HOLDS),
        tested=any(row.verdict is not Verdict.UNKNOWN for row in judged.verdicts),
        grants=result.grants,
        starved=any(STARVED in row.reason for row in judged.verdicts),
        effective=result.effective,
        took_s=time.monotonic() - begun,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Smaller:
    """A smaller plan with the same finding: its file, and its size as text."""

    file: str
    size: str
    runs: int


def shrink(plan: Plan, wanted: Occurrence, budget_ns: int, out: Path) -> Smaller | None:
    """Shrink the plan of a run within a budget, and write it beside the run. None if no smaller
    plan was found in time, or a candidate could not be executed: the hunt goes on."""
    shown = Shown(
        prop=wanted.prop,
        kind=wanted.kind,
        sentence=wanted.sentence,
        promised=wanted.promised,
        after_ns=wanted.after_ns,
    )
    try:
        with _silent():
            of = Origin(of=Path(wanted.run).name, by="shrink")
            shrunk = shrinker.shrink_within(plan, shown, budget_ns, out, "holdfast hunt", "", of)
    except HoldfastError:
        return None
    if shrunk.best.plan == plan:
        return None
    file = Path(wanted.run) / SHRUNK
    shrinker.write(shrunk, file)
    return Smaller(file=str(file), size=shrinker.size_words(shrunk.best.plan), runs=shrunk.runs)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """No progress on standard error: several runs at once would mix theirs."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield
