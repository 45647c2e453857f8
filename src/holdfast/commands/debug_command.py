"""`holdfast debug`: steps through a simulated run: states, causes, lost messages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from holdfast import interrupts
from holdfast.commands.options import Command, Whole
from holdfast.harness.core.errors import UsageError


@click.command(
    cls=Command,
    examples=(
        "holdfast debug .holdfast/runs/latest",
        "holdfast debug .holdfast/runs/latest --step 883",
        "holdfast debug .holdfast/runs/latest --lose 883",
    ),
)
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN|PLAN.toml")
@click.option("--step", type=Whole(0), help="Show this step, and exit.")
@click.option(
    "--lose",
    type=Whole(0),
    multiple=True,
    help="Execute the run again with the message of this step lost, and exit. May be repeated.",
)
@click.option(
    "--branch",
    "file",
    type=click.Path(path_type=Path),
    help="Repeat a branch that `write` of the prompt wrote, and exit.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the branch as one JSON object.")
def command(
    path: Path, step: int | None, lose: tuple[int, ...], file: Path | None, as_json: bool
) -> int:
    """Step through a simulated run.

    The run is executed again, once, with the state of each node kept after each step of the
    simulator. Then a prompt reads commands: step, next, previous, time, row, find; list, state,
    diff, causes; lose, enter, leave, write; quit. `help COMMAND` explains one. Commands may also
    come from a pipe, one per line.

    A branch is the same run in which chosen messages are lost: on a link between servers that may
    lose messages only the message, on any other connection the connection with it.

    Exit code 0; 2: the run was not simulated, its plan gives another history than the one
    recorded, or there is no such step.
    """
    with interrupts.saying(f"interrupted: {path} is as it was; the same command starts again"):
        return _debug(path, step, lose, file, as_json)


def _debug(
    path: Path, step: int | None, lose: tuple[int, ...], file: Path | None, as_json: bool
) -> int:
    """Execute the run again, and show what was asked for; the exit code."""
    from holdfast.rewind import branch, execution, session

    lost = [*lose, *(branch.read(file) if file is not None else [])]
    if as_json and not lost:
        raise UsageError("--json shows a branch: it needs --lose or --branch")
    done = execution.of_run(path, states=not lost)
    if lost:
        made = branch.branch(done, list(dict.fromkeys(lost)))
        if as_json:
            click.echo(json.dumps(made.table()))
        else:
            for line in session.branch_lines(made):
                click.echo(line)
        return 0
    if step is not None and step >= len(done.steps):
        raise UsageError(f"no step {step}: the run has steps 0 to {len(done.steps) - 1}")
    first = max(0, done.departed) if step is None else step
    prompts = sys.stdin.isatty() and step is None
    shown = session.Session(done, first, sys.stdin, sys.stdout, prompts=prompts)
    shown.show()
    if step is None:
        shown.cmdloop()
    return 0
