"""`holdfast matrix`: what held under which fault, from the evidence of runs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.campaigns.result_collection import gather
from holdfast.catalogue import VIRTUAL_TIME
from holdfast.commands.options import Command, paths_argument
from holdfast.harness.campaigns.results import Result
from holdfast.harness.core.errors import UsageError
from holdfast.planning import fingerprints

if TYPE_CHECKING:
    from holdfast.reports.many.matrix import Matrix


@click.command(
    cls=Command,
    examples=(
        "holdfast matrix .holdfast/campaigns/nightly",
        "holdfast matrix .holdfast/runs --html matrix.html",
    ),
)
@paths_argument
@click.option("--html", type=click.Path(path_type=Path), help="Write an HTML page.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Write Markdown.")
@click.option(
    "--counts",
    type=click.Path(path_type=Path),
    help="Add the counts of campaigns to this file, and show all of it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with all counts.")
def command(
    paths: tuple[Path, ...],
    html: Path | None,
    markdown: Path | None,
    counts: Path | None,
    as_json: bool,
) -> int:
    """Show system x property x fault; PATH is a campaign, a run directory, or a folder of either.

    Each cell: held, open (held in fewer than 30 runs, or than 299 simulated ones), violated or not
    exercised, the number of runs, and the upper bound of the violation rate at 95 % confidence.
    """
    from holdfast.reports.many import matrix_pages, textbook
    from holdfast.reports.many.matrix import matrix, table
    from holdfast.reports.many.page_frame import write

    results = gather(paths)
    try:
        found = matrix(results, VIRTUAL_TIME) if counts is None else _added(counts, results)
        if html is not None:
            write(html, matrix_pages.page(found, html.resolve().parent))
        if markdown is not None:
            write(markdown, matrix_pages.markdown(found))
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be written: {error.strerror}") from error
    if as_json:
        click.echo(json.dumps({**table(found), "textbook": textbook.table(found)}))
        return 0
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size((120, 24)).columns
    click.echo(matrix_pages.terminal(found, width=width, colour=colour), nl=False)
    for path in filter(None, (html, markdown)):
        click.echo(f"written: {path}")
    return 0


def _added(path: Path, results: Sequence[Result]) -> Matrix:
    """The matrix of a file of counts, after these results were added to it."""
    from holdfast.reports.many import editions

    before = editions.read(path.read_bytes(), str(path)) if path.exists() else editions.Edition()
    edition = before.with_results(results, VIRTUAL_TIME)
    path.write_bytes(editions.text_of(edition))
    return edition.matrix(fingerprints.checkers())
