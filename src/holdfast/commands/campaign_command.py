"""`holdfast campaign`: systems x workloads x nemeses x seeds, or scenarios; resumable."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from holdfast import __version__
from holdfast.catalogue import user_system
from holdfast.engine import campaign_runner, shrinker
from holdfast.harness.campaigns import journal
from holdfast.harness.campaigns.results import Result
from holdfast.harness.campaigns.spec import Campaign, Job, read
from holdfast.harness.campaigns.summary import first_failure, summary, tally
from holdfast.harness.core.durations import duration_ns
from holdfast.harness.core.errors import UsageError
from holdfast.harness.runs import directory
from holdfast.planning import prepare
from holdfast.reports.many import matrix_pages
from holdfast.reports.many.campaign import bound, headline, index
from holdfast.reports.many.matrix import matrix
from holdfast.reports.many.page_frame import write
from holdfast.reports.text.formatting import plain
from holdfast.scenarios import staging

TELL_S = 5.0


@click.command(short_help="Systems x workloads x nemeses x scenarios x seeds, resumable.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.toml")
@click.option("-j", "processes", type=click.IntRange(min=1), help="Processes; one per core.")
@click.option("--scheduler", default="", help="Run on Dask: the address, as in tcp://host:8786.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the campaign.")
@click.option("--fresh", is_flag=True, help="Begin again; what is there is put aside.")
@click.option("--shrink", help="Then make the first failure small, for at most so long: 60s.")
@click.option("--time", "each", help="Let every run last so long, whatever the file says: 10m.")
@click.option("--dry-run", is_flag=True, help="Print the runs and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def command(
    file: Path,
    processes: int | None,
    scheduler: str,
    out: Path | None,
    fresh: bool,
    shrink: str | None,
    each: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Carry out every run that FILE.toml asks for and that was not carried out before.

    The folder (.holdfast/campaigns/NAME by default) keeps what is done: the same command goes on
    after a break, a crash or a change of the file.
    """
    if scheduler and processes:
        raise UsageError("-j is for processes of this machine; a scheduler has workers of its own")
    campaign = read(_toml(file), prepare.KNOWN, str(file), file.stem, staging.one_run)
    if each:
        campaign = lasting(campaign, each)
    check(campaign)
    jobs = list(campaign.jobs(version(campaign)))
    shrink_ns = duration_ns(shrink) if shrink else 0
    if dry_run:
        for job in jobs:
            click.echo(job.key)
        return 0
    folder = out or Path(".holdfast/campaigns") / campaign.name
    if fresh:
        _put_aside(folder)
    cores = processes or len(os.sched_getaffinity(0))
    found = carry_out(campaign, jobs, folder.absolute(), cores, scheduler)
    if as_json:
        click.echo(json.dumps(found))
    else:
        _show(found, folder)
    failure = found["first_failure"]
    broken_off = 0
    if shrink_ns and failure is not None:
        broken_off = _shrink(failure, folder, shrink_ns, quiet=as_json)
    return broken_off or int(found["exit_code"])


def _shrink(failure: Mapping[str, Any], folder: Path, budget_ns: int, *, quiet: bool) -> int:
    """The first failure made small, in first-failure.toml; 130 if the user broke it off."""
    run, file = folder / failure["run"], folder / "first-failure.toml"
    shrunk = shrinker.shrink_path(run, failure["property"], budget_ns, folder / "shrinking")
    shrinker.write(shrunk, file)
    if not quiet:
        shrinker.show(shrunk, file)
    return 130 if shrunk.ended == shrinker.INTERRUPTED else 0


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file}: not TOML: {error}") from error


def lasting(campaign: Campaign, each: str) -> Campaign:
    """The same with runs of another length. UsageError where it is none, or a swarm draws it."""
    time_ns = duration_ns(each)
    if time_ns <= 0:
        raise UsageError(f"--time {each}: a run must last for some time, as in --time 10m")
    if any(cell.swarm for cell in campaign.cells):
        raise UsageError("--time: a swarm draws the length of its runs from the seed")
    cells = [replace(cell, plan=replace(cell.plan, time_ns=time_ns)) for cell in campaign.cells]
    return replace(campaign, cells=cells)


def check(campaign: Campaign) -> None:
    """UsageError with everything that would keep a run of a cell from being prepared."""
    problems: list[str] = []
    for cell in campaign.cells:
        try:
            prepare.complete(cell.plan)
        except UsageError as error:
            problems += [f"{cell.says}: {problem}" for problem in error.problems]
    if problems:
        raise UsageError(*dict.fromkeys(problems))


def version(campaign: Campaign) -> str:
    """Of Holdfast and of the users' own files: a run of another version is another run."""
    return f"{__version__} {user_system.fingerprint(cell.plan.system for cell in campaign.cells)}"


def _put_aside(folder: Path) -> None:
    if not folder.exists():
        return
    if not (folder / campaign_runner.JOURNAL).exists():
        raise UsageError(f"{folder}: no campaign lies there, so --fresh leaves it alone")
    free = next(n for n in itertools.count(1) if not Path(f"{folder}.{n}").exists())
    folder.rename(f"{folder}.{free}")


def carry_out(
    campaign: Campaign, jobs: Sequence[Job], folder: Path, processes: int, scheduler: str
) -> dict[str, Any]:
    """Do what is left to do and write the pages; the summary of all that is done."""
    path = folder / campaign_runner.JOURNAL
    with journal.Journal(path) as open_journal:
        before = journal.done(path)
        done = {key: one for key, one in before.items() if one.exit_code != 4}
        campaign_runner.clear(folder)
        left = [job for job in jobs if job.key not in done]
        mine = len(jobs) - len(left)
        if campaign.runs:
            left = left[: max(0, campaign.runs - mine)]
        shown = Shown(len(jobs), [done[job.key] for job in jobs if job.key in done])
        shown.start(campaign.name, folder, len(left))
        try:
            for found in campaign_runner.carry_out(
                left, folder, processes, scheduler, campaign_runner.deadline(campaign.time_ns)
            ):
                open_journal.add(found)
                shown.add(found)
        finally:
            shown.close()
            told = _finish(campaign, jobs, folder)
    return told


def _finish(campaign: Campaign, jobs: Sequence[Job], folder: Path) -> dict[str, Any]:
    """campaign.json, index.html and matrix.html from the journal."""
    noted = journal.done(folder / campaign_runner.JOURNAL)
    found = [noted[job.key] for job in jobs if job.key in noted]
    seen = {job.cell for job in jobs if job.key in noted}
    not_run = [cell.says for n, cell in enumerate(campaign.cells) if n not in seen]
    told = summary(campaign.name, len(jobs), found, not_run)
    directory.write_json(folder / "campaign.json", told)
    index(folder, told)
    write(folder / "matrix.html", matrix_pages.page(matrix(found), folder))
    return told


class Shown:
    """Progress as a live table on a terminal, as a plain line now and then elsewhere."""

    def __init__(self, of: int, done: Sequence[Result]) -> None:
        self._of = of
        self._done = list(done)
        self._told = time.monotonic()
        self._failed = first_failure(self._done) is not None
        self._live: Any = None
        quiet = os.environ.get("CI") or os.environ.get("NO_COLOR")
        if sys.stderr.isatty() and not quiet:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()

    def start(self, name: str, folder: Path, left: int) -> None:
        """Say what is about to be done."""
        earlier = f", {len(self._done)} done before" if self._done else ""
        click.echo(f"campaign {name}: {left} of {self._of} runs{earlier}; in {folder}", err=True)

    def add(self, found: Sequence[Result]) -> None:
        """Some more runs are done."""
        self._done += found
        if not self._failed:
            self._tell_failure(found)
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        elif time.monotonic() - self._told >= TELL_S:
            self._told = time.monotonic()
            click.echo(f"  {self._counts()}", err=True)

    def _counts(self) -> str:
        broken = sum(result.exit_code == 1 for result in self._done)
        return f"{len(self._done)} of {self._of} runs, {broken} with a broken promise"

    def _tell_failure(self, found: Sequence[Result]) -> None:
        failure = first_failure(found)
        if failure is None:
            return
        self._failed = True
        where = f"{failure['cell']}, seed {failure['seed']}"
        self._say(f"  first failure: {where}: {failure['sentence']}")
        for again in failure["commands"]:
            self._say(f"    again: {again}")

    def _say(self, line: str) -> None:
        harmless = plain(line, 2000)
        if self._live is not None:
            self._live.console.print(harmless, markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(harmless, err=True)

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        grid = Table(title=self._counts(), title_justify="left")
        for name in ("cell", "state", "runs", "broken"):
            grid.add_column(name)
        for cell in tally(self._done):
            broken = ", ".join(f"{prop} ({n})" for prop, n in cell.broken.items())
            grid.add_row(Text(cell.says), cell.word(), str(cell.runs), Text(broken))
        return grid

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()


def _show(told: dict[str, Any], folder: Path) -> None:
    width = max((len(cell["cell"]) for cell in told["cells"]), default=0)
    for cell in told["cells"]:
        parts = [f"{n} of {cell['runs']} broke {prop}" for prop, n in cell["broken"].items()]
        parts += [f"never promised: {', '.join(cell['limits'])}"] if cell["limits"] else []
        unseen = ", ".join(cell["unexercised"])
        parts += [f"not exercised: {unseen}"] if unseen else []
        parts += [f"{cell['failed']} could not be carried out"] if cell["failed"] else []
        parts += [f"{cell['incomplete']} incomplete"] if cell["incomplete"] else []
        says = f"{cell['cell']:<{width}}  {cell['word']:<11}  {cell['runs']} runs"
        click.echo("; ".join([says, *parts]))
    failure = told["first_failure"]
    if failure is not None:
        click.echo(f"first failure: {failure['property']}: {plain(failure['sentence'], 600)}")
        for again in failure["commands"]:
            click.echo(f"  again: {again}")
    click.echo(f"{headline(told)}: {bound(told)}")
    click.echo(f"index   {folder / 'index.html'}")
    click.echo(f"matrix  {folder / 'matrix.html'}")
