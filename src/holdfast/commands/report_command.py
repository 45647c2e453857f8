"""`holdfast report`: write the HTML report of a judged run."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from holdfast.commands.options import Command
from holdfast.engine import judging, reporting
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.judging.stored import stored
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import NO_REPORT


@click.command(
    cls=Command,
    examples=(
        "holdfast report .holdfast/runs/latest --open",
        "holdfast report .holdfast/runs/latest --html report.html",
    ),
)
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    show_default="RUN/report.html",
    help="File to write.",
)
@click.option("--open", "opens", is_flag=True, help="Open it in a web browser.")
def command(path: Path, html: Path | None, opens: bool) -> int:
    """Write the HTML report of a run: one file that needs no network.

    A run that was not judged yet is judged first.
    """
    run = RunDir(path.resolve())
    if run.has(run.verdicts):
        verdicts = stored(run)
    else:
        verdicts = judging.judge_run(run)
    written = reporting.report_run(run, verdicts, html)
    if written == NO_REPORT:
        raise EnvironmentFailed("no report: name a file in another folder, with --html FILE")
    click.echo(f"report: {html or written}")
    if opens and not webbrowser.open(Path(html or written).resolve().as_uri()):
        raise EnvironmentFailed("no web browser on this machine; open the file yourself")
    return 0
