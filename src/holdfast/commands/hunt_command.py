"""`holdfast hunt`: everything generic against one published lock library."""

from __future__ import annotations

import json
import os
import secrets
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from holdfast.campaigns import runner
from holdfast.commands.options import Command, Whole, budget_option, out_option
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.hunting import findings, subject, table, trying
from holdfast.hunting.agenda import runnable
from holdfast.hunting.hunt import Hunt, Hunted
from holdfast.reports.text.formatting import plain
from holdfast.reports.text.progress import Progress


def _carry_out(hunted: Hunted, out: Path, pool: Executor, cores: int, limit: int) -> None:
    """Execute the hunt, with its progress."""
    action, left_s = f"hunt {hunted.subject.package}", hunted.budget_ns / SECOND
    with Progress(action, "runs", violations=0, budget_s=left_s) as far:

        def ran() -> None:
            done = len(hunted.trials) + hunted.confirmed
            far.update(done, violations=len(hunted.found))

        def tell(line: str) -> None:
            far.say(f"  {plain(line, 2000)}")

        Hunt(hunted, out, pool, cores, tell, limit, ran).carry_out()


def _packages(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in subject.known() if name.startswith(begun)]


def _tell(line: str) -> None:
    """Progress."""
    click.echo(f"  {plain(line, 2000)}", err=True)


@click.command(
    cls=Command,
    examples=(
        "holdfast hunt redis --budget 10m",
        "holdfast hunt redis==7.1.0 --releases 20 --json",
        "holdfast hunt npm:redlock@5 --budget 30m -j 4",
        "holdfast hunt mylock.py:MyLock --system redis",
    ),
)
@click.argument("package", metavar="PACKAGE[==VERSION]|FILE", shell_complete=_packages)
@budget_option("Time limit for everything.")
@click.option(
    "--releases",
    type=Whole(1, 100),
    default=10,
    show_default=True,
    help="Number of releases, the newest first.",
)
@click.option("--system", show_default="all that it can use", help="Servers to use.")
@click.option("--runs", type=Whole(1), show_default="until the time is over", help="Searched runs.")
@click.option("-j", "processes", type=Whole(1), show_default="one per core", help="Runs at once.")
@click.option("--seed", type=Whole(0), show_default="a new one, printed", help="Random seed.")
@out_option()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    package: str,
    budget: int,
    releases: int,
    system: str | None,
    runs: int | None,
    processes: int | None,
    seed: int | None,
    out: str,
    as_json: bool,
) -> int:
    """Search a lock library, or your own lock, for violations, on real servers of this machine.

    Runs generic situations (lost replies, cancelled calls, a paused or partitioned holder, ...)
    with every way of using the library, against its newest release and now and then an older one.
    A lock of your own (FILE.py:CLASS, FILE.toml) is used as it is.
    Then repeats what it found, looks for the first and last bad release, and shrinks the plans.
    Every run is an ordinary run directory.

    ^C keeps what was found until then. Exit codes: 1 a promise of the library was violated, 3 no
    run tested a property.
    """
    found = trying.usable(subject.read(package, system, releases), _tell)
    chosen = secrets.randbelow(1 << 31) if seed is None else seed
    cores = processes or len(os.sched_getaffinity(0))
    situations, left_out = runnable(found)
    hunted = Hunted(
        subject=found, seed=chosen, budget_ns=budget, situations=situations, left_out=left_out
    )
    listed = "" if found.own else f"; releases: {', '.join(found.releases)}"
    click.echo(f"hunt {found.library(found.release)}, seed {chosen}{listed}", err=True)
    try:
        with runner.executor("", cores) as (pool, _):
            _carry_out(hunted, Path(out), pool, cores, runs or 0)
    except BrokenProcessPool as error:
        raise EnvironmentFailed("a worker process died (out of memory?)") from error
    if as_json:
        click.echo(json.dumps(table.table(hunted)))
    else:
        table.show(hunted)
    if hunted.ended:
        return 130
    if hunted.trials and all(ran.error for _, ran in hunted.trials):
        return EnvironmentFailed.exit_code
    return findings.exit_code(hunted.found, tested=hunted.tested)
