"""`holdfast package`: a folder that hands a finding on to the maintainers of a library."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.commands.options import Command
from holdfast.harness.runs.directory import RunDir
from holdfast.reports.text.layout import say


@click.command(
    cls=Command,
    examples=("holdfast package .holdfast/runs/latest --out two-owners",),
)
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    show_default="package-RUN",
    help="Folder to write.",
)
def command(path: Path, out: Path | None) -> int:
    """Write a folder that hands a finding on: a short script without Holdfast that shows it.

    For double grants of the Python libraries redis, valkey and sherlock on Redis. The script is
    tried 5 times, each on a new server; a finding that it does not show every time is refused, with
    exit code 2. The folder also has a drawing, the versions, and a text for an issue tracker.
    """
    from holdfast.engine import finding_package

    run = RunDir(path.resolve())
    target = out or Path(f"package-{run.path.name}")
    shown, trials = finding_package.write(run, target)
    say(f"{target}: reproduce.py showed the finding in {shown} of {trials} trials; see issue.md")
    return 0
