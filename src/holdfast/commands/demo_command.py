"""`holdfast demo`: two owners at once, a stale write accepted, and the same write refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import click

from holdfast.commands.options import Command
from holdfast.engine.runner import carry_out
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.ports import Fault
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.plans.plan import Plan
from holdfast.harness.runs.directory import RUNS
from holdfast.harness.verdicts.judged import Judged, Judgement
from holdfast.planning import prepare
from holdfast.reports.text.formatting import plain

OUT = Path(RUNS)


def _fault(n: int, do: str, target: str, at_s: float, for_s: float) -> Fault:
    at_ns, for_ns = round(at_s * SECOND), round(for_s * SECOND)
    return Fault(id=f"f{n}", do=do, target=target, at_ns=at_ns, for_ns=for_ns, params={})


PAUSES = (_fault(1, "pause", "holder", 1.0, 2.0), _fault(2, "pause", "holder", 4.5, 2.0))
"""Each twice the lease: the holder resumes after another client was granted the lock."""
RESTARTS = tuple(
    _fault(n, "kill", "majority", at_s, 0.1) for n, at_s in ((1, 1.5), (2, 5), (3, 8.5))
)
"""Two of three servers lose their grants while the owner holds the lock."""

UNFENCED = Plan(
    system="reference",
    backend="sim",
    nodes=0,
    resource="unfenced",
    time_ns=8 * SECOND,
    lease_ns=SECOND,
    faults=PAUSES,
)
FENCED = replace(UNFENCED, resource="fenced")
VOTE = Plan(
    system="majority",
    nodes=3,
    clients=4,
    workload="renewal",
    time_ns=12 * SECOND,
    lease_ns=4 * SECOND,
    options={"hold_leases": "1"},
    faults=RESTARTS,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One run of the tour. expected: the verdict on `prop` that makes the point."""

    title: str
    where: str
    plan: Plan
    prop: str
    expected: Verdict


PARTS = (
    Part(
        title="A lock's holder pauses for longer than its lease. The resource takes any write.",
        where="simulator",
        plan=UNFENCED,
        prop="no-stale-write",
        expected=Verdict.VIOLATED,
    ),
    Part(
        title="The same service, faults and seed. Now the resource compares fencing tokens.",
        where="simulator",
        plan=FENCED,
        prop="no-stale-write",
        expected=Verdict.HOLDS,
    ),
    Part(
        title="Another service: a majority vote without consensus. Two of three servers restart.",
        where="real processes",
        plan=VOTE,
        prop="mutual-exclusion",
        expected=Verdict.VIOLATED,
    ),
)


@click.command(
    cls=Command,
    examples=("holdfast demo", "holdfast demo --seed 11"),
)
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Random seed.")
def command(seed: int) -> int:
    """Show a stale write, a refused stale write, and two owners at once, in half a minute.

    Two runs in the simulator and one on processes of this machine. Exit code 0 if each showed
    what was expected, 3 if not.
    """
    told = []
    for n, part in enumerate(PARTS, 1):
        click.echo(f"\n{n}. {part.title}")
        plan = prepare.prepared(replace(part.plan, seed=seed))
        told.append(carry_out(plan, OUT, f"holdfast demo --seed {seed}", quiet=True))
        click.echo(f"   {part.where}: {outcome(part, told[-1])}")
    click.echo("")
    for n, verdicts in enumerate(told, 1):
        click.echo(f"report {n}: {verdicts.report}")
    if all(row_of(part, verdicts).verdict == part.expected for part, verdicts in paired(told)):
        click.echo(
            "As expected: the lock kept its promise in 1 and 2; only fencing stopped the write."
        )
        return 0
    click.echo("Not as expected: see the reports above.", err=True)
    return 3


def paired(told: list[Judged]) -> list[tuple[Part, Judged]]:
    """Each part with its verdicts."""
    return list(zip(PARTS, told, strict=True))


def row_of(part: Part, verdicts: Judged) -> Judgement:
    """The verdict's row of the property that a part is about."""
    return next(row for row in verdicts.verdicts if row.property == part.prop)


def outcome(part: Part, verdicts: Judged) -> str:
    """The verdict on that property and its evidence, in a sentence or two."""
    row = row_of(part, verdicts)
    said = f"{row.property} {row.verdict}"
    if row.findings:
        return f"{said}: {plain(row.findings[0].sentence, 600)}."
    refused = row.exercised.get("stale requests refused", 0)
    if row.verdict is Verdict.HOLDS and refused:
        return f"{said}: the resource rejected all {refused} stale requests."
    return f"{said}: {plain(row.reason, 600)}."
