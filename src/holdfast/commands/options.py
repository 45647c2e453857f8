"""Shared by all commands: settings from files and the environment, examples, completion.

A setting is an option that may also stand in holdfast.toml, under [tool.holdfast] of
pyproject.toml, or in the environment as HOLDFAST_NAME; the command line comes first, then the
environment, then the file, then the default.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from holdfast.harness.core import toml
from holdfast.harness.core.durations import positive_ns
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.runs.directory import RUNS

PREFIX = "HOLDFAST_"
FILES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("holdfast.toml", ()),
    ("pyproject.toml", ("tool", "holdfast")),
)
"""Settings files and the table in each; the first file with settings is used."""
SETTINGS = (
    "system", "backend", "workload", "resource", "nemesis", "nodes", "clients", "locks", "time",
    "lease", "hosts", "seed", "out",
)  # fmt: skip
RETENTION = ("keep", "keep_days")
"""Settings of `holdfast prune`."""
HOSTS_HELP = "File that lists the machines of --backend ssh."
FC = TypeVar("FC", bound=Callable[..., object] | click.Command)
"""What click decorates."""
CONTEXT: dict[str, Json] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


EVERY_OPTION = "holdfast.every_option"
"""Key of a context's `meta`: its help shows every option."""


def _help_all(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Callback of --help-all."""
    if asked and not ctx.resilient_parsing:
        ctx.meta[EVERY_OPTION] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class Command(click.Command):
    """A command with examples after its options, and settings before its defaults.

    daily   options that --help shows, if not all: --help-all shows the others too
    """

    def __init__(
        self,
        name: str | None,
        *,
        examples: Sequence[str] = (),
        daily: Sequence[str] = (),
        **attributes: Any,
    ) -> None:
        super().__init__(name, **{"context_settings": CONTEXT, **attributes})
        self.examples = examples
        self.daily = daily
        if daily:
            self.params.append(
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_help_all,
                    help="Show every option.",
                )
            )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options of daily life, unless all are asked for."""
        if not self.daily or ctx.meta.get(EVERY_OPTION):
            super().format_options(ctx, formatter)
            return
        params = self.get_params(ctx)
        shown = [one for one in params if one.name in (*self.daily, "help", "help_all")]
        records = [record for one in shown if (record := one.get_help_record(ctx)) is not None]
        options = sum(isinstance(one, click.Option) for one in params)
        with formatter.section(f"Options ({len(records)} of {options})"):
            formatter.write_dl(records)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: object,
    ) -> click.Context:
        """Like click's; an error in a setting names the source of the value."""
        takes = {param.name for param in self.params if isinstance(param, Setting)}
        file, table = settings_file() if takes else ("", {})
        chosen = {name: value for name, value in table.items() if name in takes}
        try:
            return super().make_context(info_name, args, parent, default_map=chosen, **extra)
        except click.BadParameter as error:
            if isinstance(error.param, Setting) and error.ctx is not None:
                source = source_of(error.ctx, error.param, file)
                if source not in ("command line", "default"):
                    raise UsageError(f"{source}: {error.param.name}: {error.message}") from error
            raise

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class Whole(click.IntRange):
    """A whole number within limits, which the message about another value names."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        try:
            number: int = super().convert(value, param, ctx)
        except click.BadParameter as error:
            most = "" if self.max is None else f" and <= {self.max}"
            expected = f"expected a whole number >= {self.min}{most}"
            raise click.BadParameter(f"{value!r}: {expected}", ctx, param) from error
        return number


def span(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """Callback of an option that takes a duration: its nanoseconds, None if not given."""
    try:
        return None if text is None else positive_ns(text)
    except UsageError as error:
        raise UsageError(f"{param.opts[0]}: {error}") from error


class Setting(click.Option):
    """An option that may also stand in a settings file or in the environment."""


def setting(*declared: str, **attributes: object) -> Callable[[FC], FC]:
    """`click.option` for a setting; its default is shown in the help text."""
    name = declared[-1].lstrip("-")
    given: dict[str, object] = {"envvar": PREFIX + name.upper(), "show_default": True, **attributes}
    return click.option(*declared, cls=Setting, **given)


def out_option() -> Callable[[FC], FC]:
    """`--out`, the folder for run directories."""
    return setting("--out", default=RUNS, help="Folder for run directories.")


def verbose_option() -> Callable[[FC], FC]:
    """`-v`, the tables below a verdict."""
    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Print every cause, and the tables of properties, errors and faults.",
    )


def budget_option(what: str) -> Callable[[FC], FC]:
    """`--budget`, the wall time of a search, in ns."""
    return click.option(
        "--budget",
        metavar="DURATION",
        default="10m",
        callback=span,
        show_default=True,
        help=what,
    )


def hosts_option() -> Callable[[FC], FC]:
    """`--hosts` of a command whose backend stands in a plan: no setting, which would be refused for
    every plan of another backend."""
    return click.option("--hosts", help=HOSTS_HELP)


paths_argument = click.argument(
    "paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH..."
)


def source_of(ctx: click.Context, param: click.Parameter, file: str) -> str:
    """The source of a parameter's value, as text."""
    assert param.name is not None
    source = ctx.get_parameter_source(param.name)
    if source is ParameterSource.ENVIRONMENT:
        return f"environment {param.envvar}"
    if source is ParameterSource.DEFAULT_MAP:
        return file
    return "command line" if source is ParameterSource.COMMANDLINE else "default"


def on_command_line(ctx: click.Context) -> set[str]:
    """Names of the parameters that the command line gives."""
    return {
        name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


def settings_file() -> tuple[str, dict[str, Json]]:
    """Name and settings of the first file that has any; UsageError lists every mistake in it."""
    for name, tables in FILES:
        path = Path(name)
        if not path.exists():
            continue
        try:
            table: object = toml.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: cannot be read: {error}") from error
        for part in tables:
            table = table.get(part, {}) if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            raise UsageError(f"{path}: invalid [{'.'.join(tables)}]: expected a table")
        if table:
            problems = [line for key, value in table.items() for line in _wrong(key, value)]
            if problems:
                raise UsageError(*(f"{path}: {line}" for line in problems))
            # An option that may be repeated takes a list.
            return name, {k: [v] if k == "nemesis" else v for k, v in table.items()}
    return "", {}


def _wrong(key: str, value: object) -> list[str]:
    from holdfast.harness.plans.plan import suggest

    if isinstance(value, dict):
        inside = next(iter(value), "system")
        return [f"[{key}]: unexpected table; settings like {inside} = ... need no [{key}] above"]
    known = (*SETTINGS, *RETENTION)
    if key not in known:
        return [suggest(key, list(known), "setting")]
    if isinstance(value, bool) or not isinstance(value, str | int):
        return [f"invalid {key} = {value!r}: expected a string or a whole number"]
    return []


def name_of(kind: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Completion with the names of `holdfast list KIND`."""

    def complete(ctx: click.Context, param: click.Parameter, begun: str) -> list[CompletionItem]:
        from holdfast.commands.listing import KINDS

        with redirect_stderr(io.StringIO()):  # a broken plug-in is no matter of completion
            rows = KINDS[kind]()
        return [
            CompletionItem(name, help=row["summary"])
            for name, row in rows.items()
            if name.startswith(begun)
        ]

    return complete
