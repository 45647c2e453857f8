"""`holdfast replay`: repeats a plan with exactly the same faults."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from holdfast import __version__
from holdfast.catalogue import VIRTUAL_TIME
from holdfast.commands.options import Command, Whole, hosts_option, name_of, out_option
from holdfast.engine import seed_search, trials
from holdfast.engine.trials import Trial
from holdfast.harness.core.errors import EnvironmentFailed, worst_exit_code
from holdfast.harness.core.json_value import Json
from holdfast.harness.history import reader
from holdfast.harness.history.diff import first_difference
from holdfast.harness.plans.manifest import Origin
from holdfast.harness.plans.plan import Plan
from holdfast.harness.runs.directory import RunDir
from holdfast.planning import plan_source
from holdfast.planning.resolve import hosts_of
from holdfast.reports.text.layout import say
from holdfast.reports.text.progress import Progress


@click.command(
    cls=Command,
    examples=(
        "holdfast replay .holdfast/runs/latest --times 10",
        "holdfast replay shrunk.toml --backend local",
    ),
)
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN|PLAN.toml")
@click.option("--times", type=Whole(1), default=1, show_default=True, help="Number of runs.")
@click.option(
    "--backend",
    show_default="as in the plan",
    help="Where the nodes run.",
    shell_complete=name_of("backends"),
)
@hosts_option()
@out_option()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    path: Path, times: int, backend: str | None, hosts: str | None, out: str, as_json: bool
) -> int:
    """Repeat a run with exactly the same faults and count the violations.

    A run counts as failing if any property is violated, promised or not. The exit code is the
    worst one of the runs.

    In the simulator the same plan must give the same history, byte for byte; this is checked,
    and nothing is written. On other backends every run is kept with its report.
    """
    plan = plan_source.read_plan(path, backend)
    where = f"{plan.system} on {plan.backend}, seed {plan.seed}, {len(plan.faults)} faults"
    click.echo(f"replay of {path}: {where}", err=True)
    hosts_of(plan, hosts or "")
    run = plan_source.run_of(path)
    origin = Origin(of=run.path.name if run else str(path), by="replay")
    done, again = list[Trial](), f"holdfast replay {path}"
    if plan.backend in VIRTUAL_TIME:
        seed_search.warm()
    with Progress("replay", "runs", times, violations=0) as far:
        for n in range(times):
            if plan.backend in VIRTUAL_TIME:
                done.append(trials.simulated(plan))
            else:
                done.append(trials.carried_out(plan, Path(out), again, hosts or "", origin))
                words = ", ".join(shown.name for shown in done[-1].shown) or "no finding"
                far.say(f"  {n + 1} of {times}: {words}")
            far.update(n + 1, violations=sum(bool(trial.shown) for trial in done))
    if plan.backend in VIRTUAL_TIME:
        _must_be_the_same(plan, done, run)
    code = worst_exit_code(trial.exit_code for trial in done)
    if as_json:
        click.echo(json.dumps(_table(path, plan, done, code)))
    else:
        _show(path, plan, done)
    return code


def _must_be_the_same(plan: Plan, done: Sequence[Trial], run: RunDir | None) -> None:
    """EnvironmentFailed if a simulated plan gave different histories."""
    if len({trial.digest for trial in done}) > 1:
        digests = ", ".join(dict.fromkeys(trial.digest for trial in done))
        raise EnvironmentFailed(f"one plan gave different histories: {digests}; please report it")
    if run is None:
        return
    manifest = run.read_manifest()
    simulated = manifest.plan.backend in VIRTUAL_TIME
    if not simulated or manifest.version != __version__:
        return
    again = done[0].history
    assert again is not None
    differs = first_difference(reader.load(run.history).history, again)
    if differs:
        raise EnvironmentFailed(
            f"{run.path}: different history; {differs};"
            " was the run made with other code of this version?"
        )


def _counted(done: Sequence[Trial]) -> list[dict[str, Json]]:
    """Every kind of finding, how often it occurred, and its first sentence."""
    times = Counter((shown.prop, shown.kind) for trial in done for shown in trial.shown)
    first = {(shown.prop, shown.kind): shown for trial in reversed(done) for shown in trial.shown}
    return [
        {
            "property": prop,
            "kind": kind,
            "promised": first[prop, kind].promised,
            "times": count,
            "sentence": first[prop, kind].sentence,
        }
        for (prop, kind), count in sorted(times.items())
    ]


def _show(path: Path, plan: Plan, done: Sequence[Trial]) -> None:
    failed = sum(bool(trial.shown) for trial in done)
    click.echo(f"fails {failed} of {len(done)}")
    for row in _counted(done):
        name = f"{row['property']}: {row['kind']}" if row["property"] else f"a node {row['kind']}"
        never = "" if row["promised"] else ", never promised"
        say(f"  {name}, {row['times']} of {len(done)}{never}: {row['sentence']}")
    for problem in dict.fromkeys(text for trial in done for text in trial.problems):
        say(f"  incomplete: {problem}")
    if plan.backend in VIRTUAL_TIME:
        cpu_ms = sum(trial.cpu_ns for trial in done) / len(done) / 1e6
        click.echo(f"the same history each time ({done[0].digest}), {cpu_ms:.1f} ms CPU")
        file = plan_source.run_of(path)
        click.echo(f"report: holdfast run {file.plan if file else path}")
    else:
        for trial in done:
            click.echo(f"run: {trial.run}")


def _table(path: Path, plan: Plan, done: Sequence[Trial], code: int) -> dict[str, Json]:
    return {
        "schema": "holdfast-replay/1",
        "plan": str(path),
        "backend": plan.backend,
        "seed": plan.seed,
        "faults": len(plan.faults),
        "times": len(done),
        "failed": sum(bool(trial.shown) for trial in done),
        "exit_code": code,
        "findings": _counted(done),
        "problems": [list(trial.problems) for trial in done],
        "digests": [trial.digest for trial in done if trial.digest],
        "runs": [trial.run for trial in done if trial.run],
        "cpu_ns": [trial.cpu_ns for trial in done],
    }
