"""`holdfast verify`: the certificates of a judged run against its recorded rows."""

from __future__ import annotations

import json
from pathlib import Path

import click

from holdfast.commands.options import Command
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
        return 4 if outcome.refused else 0
    for line in outcome.refused:
        say(f"refused: {line}")
    if outcome.why:
        say(f"nothing was verified: {outcome.why}")
    told = f"{outcome.accepted} certificates accepted, {len(outcome.refused)} refused"
    say(f"{told}; {outcome.bare} findings have none" if outcome.bare else told)
    if outcome.opportunities:
        say(f"the first witnesses of {outcome.opportunities} kinds of opportunity accepted")
    if outcome.unruled:
        say(f"opportunities that no rule verifies: {', '.join(outcome.unruled)}")
    if outcome.unordered:
        names = ", ".join(name.replace("-", " ") for name in outcome.unordered)
        say(f"{len(outcome.unordered)} properties hold without an order to verify: {names}")
    if outcome.unverifiable:
        names = ", ".join(outcome.unverifiable)
        say(f"not independently verified: checker of the user: {names}")
    return 4 if outcome.refused else 0
