"""`holdfast matrix`: what held under which fault, from the evidence of runs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import click

from holdfast.engine.gather import gather
from holdfast.harness.core.errors import UsageError


@click.command(short_help="System x property x fault, from the evidence of runs.")
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH..."
)
@click.option("--html", type=click.Path(path_type=Path), help="Write an HTML page there.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Write Markdown there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, evidence and all.")
def command(
    paths: tuple[Path, ...], html: Path | None, markdown: Path | None, as_json: bool
) -> int:
    """PATH: a campaign, a run directory, or a folder of either.

    Each cell says held, violated or not exercised, in how many runs, and what rate of violations
    those runs leave possible.
    """
    from holdfast.reports.many import matrix_pages, textbook
    from holdfast.reports.many.matrix import matrix, table
    from holdfast.reports.many.page_frame import write

    found = matrix(gather(paths))
    try:
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
