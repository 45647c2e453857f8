"""The command line: one file per command, loaded when it is called.

`holdfast --help` needs click alone. Every HoldfastError becomes its message and its exit code.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import click

from holdfast import __version__
from holdfast.harness.core.errors import EnvironmentFailed, HoldfastError
from holdfast.harness.runs import registry

COMMANDS: dict[str, str] = {
    "demo": "The tour: the reference service holds, the majority vote is violated.",
    "run": "One run: deploy, drive clients under faults, judge, report.",
    "scenario": "A validation scenario by name: owner-pause, retry-storm ...",
    "sim": "Many seeds in the simulator, every knob drawn from each.",
    "replay": "The same plan again, every fault exact: fails N of M.",
    "shrink": "The smallest plan that still fails the same way.",
    "campaign": "Systems x workloads x nemeses x seeds, resumable.",
    "gate": "May these runs pass, compared with a baseline?",
    "matrix": "System x property x fault, from the evidence of runs.",
    "check": "Judge a run or a foreign history; the verdict is the exit code.",
    "verify": "Check a run's verdicts against its recorded rows, by a second program.",
    "report": "Write the HTML report of a judged run.",
    "serve": "Browse runs in a browser, also while they go on.",
    "export": "Write a run's operations for other tools: JSON lines, EDN, CSV, Parquet.",
    "list": "What there is: systems, workloads, nemeses, checkers, scenarios, mutants ...",
    "doctor": "What this machine can run and why not; --clean removes leftovers.",
    "config": "Every setting and where it came from.",
}


class Lazy(click.Group):
    """Imports the file of a command only when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"holdfast.commands.{name}_command")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from holdfast.harness.plans.plan import suggest

            ctx.fail(suggest(args[0], list(COMMANDS), "command"))
        return super().resolve_command(ctx, args)


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
def cli() -> None:
    """Find out whether a distributed lock can ever have two holders.

    Exit codes: 0 holds, 1 violated, 2 usage, 3 inconclusive, 4 environment failed,
    130 interrupted.
    """


def crashed(error: Exception) -> str:
    """One line about a mistake of ours, or a full disk; its traceback is kept in a file."""
    what = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    told = "".join(traceback.format_exception(error))
    for folder in (registry.folder().parent / "crashes", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Made anew, for the user alone: 0600, and never through a link.
            file, name = tempfile.mkstemp(prefix="holdfast-", suffix=".traceback", dir=folder)
            with os.fdopen(file, "w", errors="backslashreplace") as kept:
                kept.write(told)
        except OSError:
            continue
        return f"an error that was not foreseen: {what}; please report it, with {name}"
    return f"an error that was not foreseen: {what}; its traceback could not be written anywhere"


def main(args: list[str] | None = None) -> Any:
    """The program. Ends the process with the exit code of the command."""
    try:
        code = cli.main(args=args, prog_name="holdfast", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except HoldfastError as error:
        for line in str(error).splitlines():
            click.echo(f"holdfast: {line}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # Nobody reads our output any more; what is left of it must not fail once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(EnvironmentFailed.exit_code)
    except Exception as error:
        click.echo(f"holdfast: {crashed(error)}", err=True)
        sys.exit(EnvironmentFailed.exit_code)
    sys.exit(code if isinstance(code, int) else 0)
