"""Shrinks a failing plan within a budget, shows progress, and keeps the smallest plan."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from holdfast import catalogue
from holdfast.catalogue import VIRTUAL_TIME
from holdfast.engine import seed_search, trials
from holdfast.engine.trials import OutOfTime, Shown, Tries
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.durations import duration_text
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.judging.stored import stored
from holdfast.harness.plans.manifest import OWN, Origin
from holdfast.harness.plans.plan import Plan, suggest, to_toml
from holdfast.harness.plans.shrink import Failing, shrink
from holdfast.harness.runs.directory import RunDir
from holdfast.planning import plan_source
from holdfast.planning.resolve import hosts_of
from holdfast.reports.text.layout import say
from holdfast.reports.text.progress import Progress

INTERRUPTED = "interrupted"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shrunk:
    """Result of shrinking. ended: "" if it finished, else what stopped it."""

    before: Plan
    best: Failing
    wanted: Shown
    runs: int
    cpu_ns: int
    ended: str


def known_findings(run: RunDir) -> Sequence[Shown]:
    """Findings of a judged run; () if it was not judged."""
    if not run.has(run.verdicts):
        return ()
    return trials.of_verdicts(stored(run))


def first_findings(
    plan: Plan, out: Path, again: str, hosts: str = "", origin: Origin = OWN
) -> Sequence[Shown]:
    """Findings of a plan when it is run; outside the simulator it may run several times."""
    if plan.backend in VIRTUAL_TIME:
        return trials.simulated(plan).shown
    for _ in range(trials.REPEATS):
        found = trials.carried_out(plan, out, again, hosts, origin).shown
        if found:
            return found
    return ()


def choose(found: Sequence[Shown], prop: str | None, where: str) -> Shown:
    """The finding to keep; UsageError if there is none, or none of the given property."""
    if not found:
        raise UsageError(f"{where}: nothing to shrink: no violation")
    if prop is None:
        return found[0]
    shown = list(dict.fromkeys(one.prop for one in found))
    if prop not in shown:
        raise UsageError(f"{where}: {suggest(prop, shown, 'violated property')}")
    return next(one for one in found if one.prop == prop)


def stand_ins(plan: Plan) -> dict[str, str]:
    """Simulator-only kinds of fault of a plan -> the most similar kind of every backend."""
    traits = {fault.do: catalogue.NEMESES[fault.do].traits for fault in plan.faults}
    return {name: of.stand_in for name, of in traits.items() if of.stand_in}


def shrink_path(path: Path, prop: str | None, budget_ns: int, out: Path, hosts: str = "") -> Shrunk:
    """Shrink a run or a plan file, as `shrink_within`; a judged run is not run again first.

    hosts: file of the machines, where the backend needs one.
    UsageError if nothing is violated, or not `prop`.
    """
    plan, run, again = (
        plan_source.read_plan(path),
        plan_source.run_of(path),
        f"holdfast shrink {path}",
    )
    origin = Origin(of=run.path.name if run else str(path), by="shrink")
    click.echo(f"shrink {path}: {size_words(plan)}, seed {plan.seed}", err=True)
    found = known_findings(run) if run else ()
    if plan.backend in VIRTUAL_TIME or not found:
        found = first_findings(plan, out, again, hosts, origin)
    wanted = choose(found, prop, str(path))
    return shrink_within(plan, wanted, budget_ns, out, again, hosts, origin)


def shrink_within(
    plan: Plan,
    wanted: Shown,
    budget_ns: int,
    out: Path,
    again: str,
    hosts: str = "",
    origin: Origin = OWN,
) -> Shrunk:
    """Shrink a complete plan that shows `wanted`. The budget is wall time; ^C ends it as well."""
    over_s = time.monotonic() + budget_ns / SECOND
    if plan.backend in VIRTUAL_TIME:
        seed_search.warm()
    hosts_of(plan, hosts)  # a missing file is no reason to try smaller plans
    far = Progress("shrink", "runs", budget_s=budget_ns / SECOND)

    def enough() -> bool:
        far.update(tries.made)
        return time.monotonic() >= over_s

    tries = Tries(wanted=wanted, out=out, again=again, hosts=hosts, origin=origin, enough=enough)
    best = first = Failing(plan=plan, after_ns=wanted.after_ns, sentence=wanted.sentence)
    ended = told = ""
    try:
        for best in shrink(first, tries, stand_ins(plan)):
            size = size_words(best.plan)
            if size != told:
                told = size
                far.update(note=f"smallest: {size}")
                far.say(f"  {size} ({_many(tries.made, 'run')})")
    except OutOfTime:
        ended = "budget exhausted"
    except KeyboardInterrupt:
        ended = INTERRUPTED
    finally:
        far.close()
    return Shrunk(
        before=plan,
        best=best,
        wanted=wanted,
        runs=tries.made,
        cpu_ns=tries.cpu_ns,
        ended=ended,
    )


def size_words(plan: Plan) -> str:
    """Size of a plan as text."""
    seconds = f"{plan.time_ns / SECOND:g} s"
    counts = ((plan.clients, "client"), (plan.locks, "lock"), (plan.nodes, "server"))
    parties = ", ".join(_many(number, word) for number, word in counts if number)
    return f"{_many(len(plan.faults), 'fault')} in {seconds}, {parties}"


def _many(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def write(shrunk: Shrunk, file: Path) -> None:
    """Write the small plan with its finding as a comment. UsageError if it cannot be written."""
    head = [
        f"{shrunk.wanted.name}: {shrunk.best.sentence}",
        f"Shrunk from: {size_words(shrunk.before)}.",
        f"Again: holdfast replay {file}",
    ]
    lines = [f"# {' '.join(line.split())}\n" for line in head]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(lines) + to_toml(shrunk.best.plan, exact=True))
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}; try --to") from error


def show(shrunk: Shrunk, file: Path) -> None:
    """The result as text."""
    click.echo(f"from {size_words(shrunk.before)}")
    click.echo(f"to   {size_words(shrunk.best.plan)}")
    for fault in shrunk.best.plan.faults:
        at, span = duration_text(fault.at_ns), duration_text(fault.for_ns)
        waits = f" at the first {fault.when} from {at} on" if fault.when else f" at {at}"
        click.echo(f"  {fault.do} {fault.target}{waits} for {span}")
    never = "" if shrunk.wanted.promised else " (never promised)"
    say(f"{shrunk.wanted.name}{never}: {shrunk.best.sentence}")
    ended = f"; {shrunk.ended}: smallest plan so far" if shrunk.ended else ""
    click.echo(f"{_many(shrunk.runs, 'run')}, {shrunk.cpu_ns / SECOND:.1f} s CPU{ended}")
    click.echo(f"again: holdfast replay {file}")
    click.echo(f"report: holdfast run {file}")


def table(shrunk: Shrunk, file: Path) -> dict[str, Json]:
    """The result as one JSON object."""
    before, after = shrunk.before, shrunk.best.plan
    names = ("clients", "locks", "nodes", "time_ns")
    return {
        "schema": "holdfast-shrink/1",
        "plan": str(file),
        "property": shrunk.wanted.prop,
        "kind": shrunk.wanted.kind,
        "promised": shrunk.wanted.promised,
        "sentence": shrunk.best.sentence,
        "before": {"faults": len(before.faults), **{n: getattr(before, n) for n in names}},
        "after": {"faults": len(after.faults), **{n: getattr(after, n) for n in names}},
        "runs": shrunk.runs,
        "cpu_ns": shrunk.cpu_ns,
        "ended": shrunk.ended,
    }
