"""`holdfast verify`: the certificates of a judged run against its recorded rows."""

from __future__ import annotations

import json
from pathlib import Path

import click

from holdfast.commands.options import Command
from holdfast.harness.verification.command import exit_code, lines
from holdfast.harness.verification.verify import verify_run
from holdfast.reports.text.layout import say


@click.command(
    cls=Command,
    examples=("holdfast verify .holdfast/runs/latest",),
)
@click.argument("path", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(path: Path, as_json: bool) -> int:
    """Check every certificate, and the witnesses of opportunities, against the recorded rows.

    The verifier decodes the rows itself and shares no code with the checkers. Exit code 0: all
    accepted; 4: one refused; 2: the run cannot be read.
    """
    outcome = verify_run(path.resolve())
    if as_json:
        click.echo(json.dumps(outcome._asdict()))
    else:
        for line in lines(outcome):
            say(line)
    return exit_code(outcome)
