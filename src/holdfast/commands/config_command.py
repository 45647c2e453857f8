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
    width = max(len(name) for name in settings)
    for name, setting in settings.items():
        click.echo(f"{name:<{width}}  {setting.value!s:<20}  {setting.source}")
    return 0
