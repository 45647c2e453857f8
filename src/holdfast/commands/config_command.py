"""`holdfast config show`: every value and where it came from."""

from __future__ import annotations

import click

from holdfast.planning.settings import resolve


@click.group(short_help="Every setting and where it came from.")
def command() -> None:
    """Settings come from the command line, HOLDFAST_* variables, holdfast.toml, pyproject.toml."""


@command.command()
def show() -> int:
    """Print every setting, its value and its source."""
    settings = resolve({})
    rows = [(name, setting.shown(name), setting.source) for name, setting in settings.items()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, value, source in rows:
        click.echo(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {source}")
    return 0
