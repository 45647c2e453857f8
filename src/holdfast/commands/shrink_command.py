"""`holdfast shrink`: the smallest plan that still fails the same way."""

from __future__ import annotations

import json
from pathlib import Path

import click

from holdfast.engine import shrinker
from holdfast.harness.core.durations import duration_ns
from holdfast.planning import plan_source
from holdfast.planning.settings import DEFAULTS


@click.command(short_help="The smallest plan that still fails the same way.")
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN|PLAN.toml")
@click.option("--budget", default="10m", show_default=True, help="How long to try at most.")
@click.option("--property", "prop", help="Keep a finding of this property; the first if not given.")
@click.option("--to", type=click.Path(path_type=Path), help="Where the small plan is written.")
@click.option(
    "--out", default=DEFAULTS["out"], show_default=True, help="Folder for run directories."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    path: Path, budget: str, prop: str | None, to: Path | None, out: str, as_json: bool
) -> int:
    """Leave out faults, time, clients, locks and options as long as the same property is violated
    by the same kind of finding. ^C and the end of the budget keep the smallest plan so far.

    In the simulator each candidate is tried on several networks; elsewhere it is run up to three
    times, and every run is kept. The plan is written to RUN/shrunk.toml or PLAN.shrunk.toml.
    """
    budget_ns = duration_ns(budget)
    run = plan_source.run_of(path)
    file = to or (run.path / "shrunk.toml" if run else path.with_suffix(".shrunk.toml"))
    shrunk = shrinker.shrink_path(path, prop, budget_ns, Path(out))
    shrinker.write(shrunk, file)
    if as_json:
        click.echo(json.dumps(shrinker.table(shrunk, file)))
    else:
        shrinker.show(shrunk, file)
    return 130 if shrunk.ended == shrinker.INTERRUPTED else 0
