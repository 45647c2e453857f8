"""`holdfast compare`: two judged runs side by side."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from holdfast.commands.options import Command
from holdfast.harness.campaigns import results
from holdfast.harness.campaigns.results import Result
from holdfast.harness.core.errors import UsageError
from holdfast.harness.judging.stored import stored
from holdfast.harness.runs.directory import RunDir
from holdfast.reports.many.two_runs import Row, compared
from holdfast.reports.text import layout
from holdfast.reports.text.formatting import plain
from holdfast.reports.text.layout import say, width


@click.command(
    cls=Command,
    examples=(
        "holdfast compare .holdfast/runs/before .holdfast/runs/after",
        "holdfast compare RUN1 RUN2 -v",
    ),
)
@click.argument("left", type=click.Path(path_type=Path), metavar="RUN")
@click.argument("right", type=click.Path(path_type=Path), metavar="RUN")
@click.option("-v", "--verbose", is_flag=True, help="Print what is the same, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(left: Path, right: Path, verbose: bool, as_json: bool) -> int:
    """Show in what two judged runs differ: plan, properties, measures."""
    rows = compared(_result(left), _result(right))
    if as_json:
        table = {"schema": "holdfast-compare/1", "runs": [str(left), str(right)]}
        click.echo(json.dumps({**table, "rows": [asdict(row) for row in rows]}))
        return 0
    shown = [row for row in rows if verbose or row.differs]
    if shown:
        _show(shown, left, right)
    differing = sum(row.differs for row in rows)
    say(f"{differing} of {len(rows)} rows differ{'' if verbose else '; -v shows all'}")
    return 0


def _result(path: Path) -> Result:
    run = RunDir(path.resolve())
    manifest = run.read_manifest()
    if not run.has(run.verdicts):
        raise UsageError(f"{path}: not judged yet; judge it with holdfast check {path}")
    return results.of_verdicts(stored(run), manifest)


def _show(rows: list[Row], left: Path, right: Path) -> None:
    console, out = layout.buffered(width(), colour=False)
    for name, path in (("first", left), ("second", right)):
        click.echo(f"{name:<7} {plain(path.resolve().name, 200)}")
    grid = layout.table(["what"], "first", "second")
    for row in rows:
        grid.add_row(plain(row.name, 60), plain(row.left, 300), plain(row.right, 300))
    layout.show(console, grid)
    sys.stdout.write("\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n")
