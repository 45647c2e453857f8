"""`holdfast demo`: two runs on local processes, one lock that holds and one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from holdfast import catalogue
from holdfast.engine.runner import carry_out
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.ports import Fault
from holdfast.harness.plans.plan import Plan
from holdfast.planning import prepare

OUT = Path(".holdfast/runs")
SPAN_NS = 20 * SECOND


def _fault(n: int, do: str, target: str, at_s: float, for_s: float, **params: str) -> Fault:
    at_ns, for_ns = round(at_s * SECOND), round(for_s * SECOND)
    return Fault(id=f"f{n}", do=do, target=target, at_ns=at_ns, for_ns=for_ns, params=params)


FAULTS = (
    _fault(1, "partition", "leader|one", 1.0, 3.0, shape="isolate", clients="cut"),
    _fault(2, "kill", "leader|one", 5.0, 3.0),
    _fault(3, "pause", "holder", 9.0, 2.5),
    _fault(4, "partition", "holder", 12.5, 2.5, shape="isolate"),
    _fault(5, "pause", "holder", 16.0, 2.5),
)
"""One after the other, each longer than the lease of one second: so that each is seen to matter."""
MUST_HOLD = ("mutual-exclusion", "token-order", "no-stale-write")


@click.command(short_help="The tour: the reference holds, the majority vote is violated.")
@click.option("--seed", type=int, default=7, show_default=True, help="Where all chance comes from.")
def command(seed: int) -> int:
    """Partitions, a leader kill and holder pauses against two lock services.

    Exit code 0 if both came out as they must: the reference service holds, the vote does not.
    """
    seconds = SPAN_NS // SECOND
    click.echo(f"Two lock services, each {seconds} s under partitions, kills and pauses.")
    held = _tour("reference", seed)
    voted = _tour("majority", seed)
    return judged(held, voted)


def _tour(system: str, seed: int) -> dict[str, Any]:
    plan = Plan(system=system, nodes=0, seed=seed, time_ns=SPAN_NS, lease_ns=SECOND, faults=FAULTS)
    from holdfast.reports.run.story import story

    click.echo(f"\n{system}: {catalogue.SYSTEMS[system].says}")
    verdicts = carry_out(prepare.complete(plan), OUT, f"holdfast demo --seed {seed}", quiet=True)
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
