"""`holdfast demo`: two runs on local processes, one lock that holds and one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from holdfast import catalogue
from holdfast.commands import prepare
from holdfast.commands.run_command import carry_out
from holdfast.harness.clock import SECOND
from holdfast.harness.plan import Plan

OUT = Path(".holdfast/runs")
FAULTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("partition", {}),
    ("kill", {}),
    ("pause", {"target": "holder"}),
)
MUST_HOLD = ("mutual-exclusion", "token-order", "no-stale-write")


@click.command(short_help="The tour: the reference holds, the majority vote is violated.")
@click.option("--seed", type=int, default=7, show_default=True, help="Where all chance comes from.")
@click.option("--time", "seconds", type=int, default=15, show_default=True, help="Seconds a run.")
def command(seed: int, seconds: int) -> int:
    """Partitions, leader kills and holder pauses against two lock services.

    Exit code 0 if both came out as they must: the reference service holds, the vote does not.
    """
    click.echo(f"Two lock services, each {seconds} s under partitions, kills and pauses.")
    held = _tour("reference", seed, seconds)
    voted = _tour("majority", seed, seconds)
    return judged(held, voted)


def _tour(system: str, seed: int, seconds: int) -> dict[str, Any]:
    plan = Plan(
        system=system, nodes=0, seed=seed, time_ns=seconds * SECOND, lease_ns=SECOND, nemeses=FAULTS
    )
    from holdfast.reports.story import story

    click.echo(f"\n{system}: {catalogue.SYSTEMS[system].says}")
    verdicts = carry_out(prepare.complete(plan), OUT, prepare.command(plan), quiet=True)
    for line in story(verdicts):
        click.echo(f"  {line}")
    click.echo(f"  report: {verdicts['report']}")
    return verdicts


def judged(held: dict[str, Any], voted: dict[str, Any]) -> int:
    """The last lines of the tour, and its exit code."""
    by_name = {row["property"]: row["verdict"] for row in held["verdicts"]}
    holds = all(by_name.get(prop) == "HOLDS" for prop in MUST_HOLD)
    click.echo(f"\nreference  {held['verdict']}: {', '.join(MUST_HOLD)}")
    broken = [row["property"] for row in voted["verdicts"] if row["verdict"] == "VIOLATED"]
    click.echo(f"majority   {voted['verdict']}: {', '.join(broken) or 'nothing was seen to break'}")
    if holds and voted["verdict"] == "VIOLATED":
        click.echo("As expected: a consensus keeps what a vote of strangers cannot.")
        return 0
    click.echo("Not as expected; look at the reports above.", err=True)
    return 1
