"""The command line: one file per command, loaded when it is called.

`holdfast --help` needs click alone. Every HoldfastError becomes its message and its exit code.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from pathlib import Path

import click

from holdfast import __version__
from holdfast.commands.options import CONTEXT
from holdfast.harness.core.errors import EnvironmentFailed, HoldfastError, no_space
from holdfast.harness.runs import registry, signals
from holdfast.interrupts import loaded

SECTIONS: dict[str, dict[str, str]] = {
    "One run": {
        "demo": "Show a stale write, and two owners of one lock, in half a minute.",
        "run": "Deploy a lock service, inject faults, judge the history.",
        "scenario": "Run a validation scenario: owner-pause, retry-storm, ...",
        "replay": "Repeat a run with exactly the same faults: fails N of M.",
        "shrink": "Find a minimal plan that still shows a violation.",
    },
    "Many runs": {
        "sim": "Search for violations in the simulator, one run per seed.",
        "campaign": "Run systems x workloads x nemeses x seeds; resumable.",
        "hunt": "Search a published lock library for violations, within a time budget.",
        "gate": "Compare runs with a baseline, for CI.",
    },
    "Recorded runs": {
        "check": "Judge a run again, or a foreign history.",
        "report": "Write the HTML report of a run.",
        "compare": "Show in what two runs differ.",
        "prune": "Remove old run directories, by a rule of retention.",
        "serve": "Browse runs in a web browser.",
        "explain": "Show how a finding of a simulated run came about, step by step.",
    },
    "Your own": {
        "new": "Write a working lock, workload, nemesis or checker, with its test.",
    },
    "Lookup": {
        "list": "List systems, workloads, nemeses, checkers, scenarios, ...",
        "doctor": "Show what this machine can run; remove leftovers.",
        "config": "Show every setting, its value and its source.",
    },
    "Seldom": {
        "matrix": "Show system x property x fault over many runs.",
        "verify": "Check every verdict's certificate against the recorded rows.",
        "package": "Write a script without Holdfast that shows a finding.",
        "debug": "Step through a simulated run: states, causes, lost messages.",
        "export": "Write operations as JSON lines, EDN, CSV or Parquet.",
    },
}
COMMANDS = {name: says for section in SECTIONS.values() for name, says in section.items()}


class Lazy(click.Group):
    """Imports the file of a command only when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = loaded(f"holdfast.commands.{name}_command")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # One width for all sections, so that their second columns stand below each other.
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), says) for name, says in commands.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from holdfast.harness.plans.plan import suggest

            ctx.fail(suggest(args[0], list(COMMANDS), "command"))
        return super().resolve_command(ctx, args)


@click.group(cls=Lazy, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="holdfast")
def cli() -> None:
    """Test distributed locks: can two owners ever hold at once, can a stale write be accepted?

    Exit codes: 0 every tested promise held, 1 a promise was violated, 2 usage, 3 inconclusive,
    4 environment failed or internal error, 130 interrupted.
    """


def crashed(error: Exception) -> str:
    """One line about an internal error or a full disk; the traceback goes to a file named in it."""
    what = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    told = "".join(traceback.format_exception(error))
    for folder in (registry.folder().parent / "crashes", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # A new file, for the user only: 0600, and never through a link.
            file, name = tempfile.mkstemp(prefix="holdfast-", suffix=".traceback", dir=folder)
            with os.fdopen(file, "w", errors="backslashreplace") as kept:
                kept.write(told)
        except OSError:
            continue
        return f"internal error: {what}; please report it, with {name}"
    return f"internal error: {what}; the traceback could not be written"


def interrupted(stop: BaseException | None) -> str:
    """One line about ^C: what the command says of it, else that nothing goes on."""
    words = str(stop) if isinstance(stop, KeyboardInterrupt) else ""
    return words or "interrupted; the same command starts again"


def main(args: list[str] | None = None) -> object:
    """The program. Ends the process with the exit code of the command."""
    signals.end_here()
    try:
        code = cli.main(args=args, prog_name="holdfast", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort as aborted:
        click.echo(f"holdfast: {interrupted(aborted.__cause__)}", err=True)
        sys.exit(130)
    except KeyboardInterrupt as stop:
        click.echo(f"holdfast: {interrupted(stop)}", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except HoldfastError as error:
        for line in str(error).splitlines():
            click.echo(f"holdfast: {line}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output has exited; the rest of it must not fail again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(EnvironmentFailed.exit_code)
    except Exception as error:
        full = no_space(error) if isinstance(error, OSError) else None
        told = str(full) if full else crashed(error)
        click.echo(f"holdfast: {told}", err=True)
        sys.exit(EnvironmentFailed.exit_code)
