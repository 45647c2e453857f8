"""`holdfast config show`: every setting, its value and its source."""

from __future__ import annotations

import click

from holdfast.commands.options import Command, Setting, settings_file, source_of
from holdfast.commands.prune_command import command as prune
from holdfast.commands.run_command import command as run
from holdfast.reports.text.layout import aligned, width


@click.group()
def command() -> None:
    """Show settings: options that may also stand in a file or in the environment.

    The first of these that has a value wins: the command line, the variable HOLDFAST_NAME,
    holdfast.toml, [tool.holdfast] in pyproject.toml, the default.
    """


@command.command(cls=Command, examples=("HOLDFAST_CLIENTS=9 holdfast config show",))
def show() -> int:
    """Print every setting, its value and its source."""
    file, _ = settings_file()
    rows: dict[str, tuple[str, str, str]] = {}
    for name, owner in {"run": run, "prune": prune}.items():
        with owner.make_context(name, []) as ctx:
            for param in owner.params:
                if isinstance(param, Setting) and param.name is not None:
                    value = ctx.params[param.name]
                    text = ",".join(value) if isinstance(value, tuple) else value
                    shown = param.show_default if text in (None, "") else text
                    row = (param.name, str(shown), source_of(ctx, param, file))
                    rows.setdefault(param.name, row)
    for line in aligned(list(rows.values()), width()):
        click.echo(line)
    return 0
