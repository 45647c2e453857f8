"""`holdfast shrink`: the smallest plan that still fails the same way."""

from __future__ import annotations

import json
from pathlib import Path

import click

from holdfast import interrupts
from holdfast.commands.options import Command, budget_option, hosts_option, out_option
from holdfast.engine import shrinker
from holdfast.planning import plan_source


@click.command(
    cls=Command,
    examples=(
        "holdfast shrink .holdfast/runs/latest",
        "holdfast shrink plan.toml --property no-stale-write --budget 5m --to small.toml",
    ),
)
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN|PLAN.toml")
@budget_option("Time limit.")
@click.option(
    "--property", "prop", show_default="the first violated", help="Property to keep violated."
)
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    show_default="RUN/shrunk.toml or PLAN.shrunk.toml",
    help="File for the smaller plan.",
)
@hosts_option()
@out_option()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    path: Path,
    budget: int,
    prop: str | None,
    to: Path | None,
    hosts: str | None,
    out: str,
    as_json: bool,
) -> int:
    """Find a minimal plan that still shows the same kind of violation.

    Leaves out faults, time, clients, locks and options. Each candidate is tried on several
    networks in the simulator, and up to three times on other backends, where every run is kept.
    ^C and the end of the budget keep the smallest plan found so far.
    """
    run = plan_source.run_of(path)
    file = to or (run.path / "shrunk.toml" if run else path.with_suffix(".shrunk.toml"))
    with interrupts.saying(
        f"interrupted before a plan was shown to fail: {file} is not written; the same command"
        " starts again"
    ):
        shrunk = shrinker.shrink_path(path, prop, budget, Path(out), hosts or "")
    shrinker.write(shrunk, file)
    if as_json:
        click.echo(json.dumps(shrinker.table(shrunk, file)))
    else:
        shrinker.show(shrunk, file)
    return 130 if shrunk.ended == shrinker.INTERRUPTED else 0
