"""`holdfast campaign`: systems x workloads x nemeses x seeds, or scenarios; resumable."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import replace
from pathlib import Path

import click
import msgspec

from holdfast.campaigns import progress, runner
from holdfast.commands.options import Command, Whole, span
from holdfast.engine import shrinker
from holdfast.harness.campaigns.results import read as read_result
from holdfast.harness.campaigns.spec import CampaignSpec, read
from holdfast.harness.campaigns.summary import CellRow, Failure, Summary
from holdfast.harness.core import toml
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.verdicts.left_unknown import EXERCISE, LeftUnknown
from holdfast.planning import prepare
from holdfast.reports.many.campaign import bound, headline, open_questions
from holdfast.reports.many.worst_first import failures
from holdfast.reports.text.formatting import count, plain
from holdfast.reports.text.layout import aligned, say, width
from holdfast.scenarios import staging


@click.command(
    cls=Command,
    examples=(
        "holdfast campaign nightly.toml -j 2",
        "holdfast campaign nightly.toml --time 10s --shrink 60s",
        "holdfast campaign nightly.toml --dry-run",
    ),
)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.toml")
@click.option("-j", "processes", type=Whole(1), show_default="one per core", help="Processes.")
@click.option("--scheduler", default="", help="Dask scheduler to run on: tcp://host:8786.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    show_default=".holdfast/campaigns/NAME",
    help="Folder of the campaign.",
)
@click.option("--fresh", is_flag=True, help="Move earlier results aside and start over.")
@click.option(
    "--shrink", metavar="DURATION", callback=span, help="Then shrink the first failure, this long."
)
@click.option("--time", "each", metavar="DURATION", callback=span, help="Duration of every run.")
@click.option("--dry-run", is_flag=True, help="Print the runs, and stop.")
@click.option("-v", "--verbose", is_flag=True, help="Print every cell and what it left unknown.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def command(
    file: Path,
    processes: int | None,
    scheduler: str,
    out: Path | None,
    fresh: bool,
    shrink: int | None,
    each: int | None,
    dry_run: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Run all combinations that FILE.toml lists: systems, workloads, nemeses, scenarios, seeds.

    Finished runs are kept in the folder of the campaign: after an interruption, a crash or a
    change of the file the same command carries out only what is missing.
    """
    if scheduler and processes:
        raise UsageError("-j conflicts with --scheduler, which has its own workers")
    campaign = read(_toml(file), prepare.KNOWN, str(file), file.stem, staging.one_run)
    if each:
        campaign = lasting(campaign, each)
    progress.check(campaign)
    jobs = list(campaign.jobs(progress.version(campaign)))
    if dry_run:
        for job in jobs:
            click.echo(job.key)
        return 0
    folder = out or Path(".holdfast/campaigns") / campaign.name
    if fresh:
        _put_aside(folder)
    cores = processes or len(os.sched_getaffinity(0))
    found = progress.carry_out(campaign, jobs, folder.absolute(), cores, scheduler)
    if as_json:
        click.echo(json.dumps(found))
    else:
        _show(found, folder, verbose=verbose)
    failure = found["first_failure"]
    broken_off = 0
    if shrink and failure is not None:
        broken_off = _shrink(failure, folder, shrink, quiet=as_json)
    return broken_off or int(found["exit_code"])


def _shrink(failure: Failure, folder: Path, budget_ns: int, *, quiet: bool) -> int:
    """Shrink the first failure into first-failure.toml; 130 if interrupted."""
    run, file = folder / failure["run"], folder / "first-failure.toml"
    shrunk = shrinker.shrink_path(run, failure["property"], budget_ns, folder / "shrinking")
    shrinker.write(shrunk, file)
    if not quiet:
        shrinker.show(shrunk, file)
    return 130 if shrunk.ended == shrinker.INTERRUPTED else 0


def _toml(file: Path) -> dict[str, Json]:
    try:
        return toml.loads(file.read_text())
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file}: not TOML: {error}") from error


def lasting(campaign: CampaignSpec, time_ns: int) -> CampaignSpec:
    """The campaign with another duration of runs. UsageError if sampled by a swarm."""
    if any(cell.swarm for cell in campaign.cells):
        raise UsageError("--time: a swarm samples the duration of its runs from the seed")
    cells = [replace(cell, plan=replace(cell.plan, time_ns=time_ns)) for cell in campaign.cells]
    return replace(campaign, cells=cells)


def _put_aside(folder: Path) -> None:
    if not folder.exists():
        return
    if not (folder / runner.JOURNAL).exists():
        raise UsageError(f"{folder}: not a campaign, so --fresh does not remove it")
    free = next(n for n in itertools.count(1) if not Path(f"{folder}.{n}").exists())
    folder.rename(f"{folder}.{free}")


def _show_unknown(cell: CellRow) -> None:
    """What the runs of a cell together left unknown, each cause once, and the command for it."""
    parts = msgspec.convert(cell["left_unknown"], type=list[LeftUnknown])
    for part in parts:
        say(f"{plain(cell['cell'], 200)}: {plain(part.sentence, 600)}")
    for command in dict.fromkeys(part.command for part in parts if part.command):
        click.echo(f"  {EXERCISE}: {plain(command, 1200)}")


def _show(told: Summary, folder: Path, *, verbose: bool) -> None:
    """Each failure once, the worst first; verbose: each cell, and what it left unknown, too."""
    results = [read_result(row, row["key"]) for row in told["results"]]
    rows = []
    for one in failures(results):
        shown = f"{len(one.runs)} of {count(one.of, 'run')}"
        rows.append((one.word, f"{one.system}: {one.title}", shown, ", ".join(one.faults)))
    if left := open_questions(told):
        says = f"{count(left, 'question')} not tested{'' if verbose else '; -v lists them'}"
        rows.append(("UNKNOWN", says, "", ""))
    for line in aligned(_cells(told) if verbose else [], width()):
        click.echo(line)
    for line in aligned(rows, width()):
        click.echo(line)
    failure = told["first_failure"]
    if failure is not None:
        say(f"first failure: {failure['property']}: {plain(failure['sentence'], 600)}")
        for again in failure["commands"]:
            click.echo(f"  again: {again}")
    for cell in told["cells"] if verbose else ():
        _show_unknown(cell)
    lost = next((row for row in told["results"] if row["exit_code"] == 4 and row["problems"]), None)
    if lost is not None:
        say(f"not executed: {plain(lost['key'], 200)}: {plain(lost['problems'][0], 600)}")
    say(f"{headline(told)}: {bound(told)}")
    click.echo(f"index   {folder / 'index.html'}")
    click.echo(f"matrix  {folder / 'matrix.html'}")


def _cells(told: Summary) -> list[tuple[str, str, str]]:
    """A row per cell: its state, and what it broke, as words."""
    rows = []
    for cell in told["cells"]:
        parts = [f"{n} of {cell['runs']} broke {prop}" for prop, n in cell["broken"].items()]
        parts += [f"limit: {', '.join(cell['limits'])}"] if cell["limits"] else []
        unseen = ", ".join(cell["unexercised"])
        parts += [f"not exercised: {unseen}"] if unseen else []
        parts += [f"{cell['failed']} could not be executed"] if cell["failed"] else []
        parts += [f"{cell['incomplete']} incomplete"] if cell["incomplete"] else []
        rows.append((cell["cell"], cell["word"], "; ".join([count(cell["runs"], "run"), *parts])))
    return rows
