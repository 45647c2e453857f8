"""`holdfast package`: a folder that hands a finding on to the maintainers of a library."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.commands.options import Command
from holdfast.harness.runs.directory import RunDir
from holdfast.reports.text.layout import say


@click.command(
    cls=Command,
    examples=(
        "holdfast package .holdfast/runs/latest --out two-owners",
        "holdfast package .holdfast/runs/latest --releases 10 --fresh",
    ),
)
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    show_default="package-RUN",
    help="Folder to write.",
)
@click.option(
    "--releases",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Bisect the N releases around that of the run: which ones show it.",
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Also try the script in a new environment with nothing but the packages it names.",
)
def command(path: Path, out: Path | None, releases: int, fresh: bool) -> int:
    """Write a folder that hands a finding on: a short script without Holdfast that shows it.

    The script has at most 60 lines and needs the library and a stock server. Its shape is chosen by
    what the run shows: the property, how the library was used, the faults that took effect. It is
    tried 5 times, each against new servers; a finding that it does not show every time is refused,
    with exit code 2, and so is one for which there is no shape. The folder also
    has a drawing, the versions, and a text for an issue tracker.
    """
    from holdfast.packaging import package

    run = RunDir(path.resolve())
    target = out or Path(f"package-{run.path.name}")
    asked = package.Asked(releases=releases, fresh=fresh)
    record = package.write(run, target, asked)
    name = next(target.glob("reproduce.*")).name
    say(
        f"{target}: {name} ({record.shape}) showed the finding in {record.shown} of"
        f" {record.trials} trials; see issue.md"
    )
    if record.fixed:
        say(f"with {record.fixed}: {record.fixed_shown} of {record.trials} trials")
    if record.span:
        say(record.span)
    if fresh:
        say(f"in a new environment: {record.fresh} of {record.trials} trials")
    return 0
