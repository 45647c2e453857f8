"""Executes a sweep and prints a line per value, then the conclusion."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from holdfast.catalogue import VIRTUAL_TIME
from holdfast.checkers.evidence.costs import SECTIONS
from holdfast.engine import seed_search
from holdfast.engine import sweep as sweeping
from holdfast.engine.sweep import Step, Sweep
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import worst_exit_code
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.plans.manifest import Origin
from holdfast.harness.verdicts.judged import Judged
from holdfast.reports.text.layout import say
from holdfast.reports.text.progress import Progress

UNFENCED = {
    "unfenced": ("the resource is unfenced: it admits the stale writes that a fenced one rejects",)
}
"""Kind of resource -> what to know of it to read a value at which something is violated."""


def carry_out(
    name: str,
    table: Mapping[str, Any],
    sweep: Sweep,
    again: str,
    out: Path,
    *,
    as_json: bool,
) -> int:
    """Runs every value in order; exit code: 1 a promise was broken, 3 a value was not tested."""
    where = f"{table['system']} on {table['backend']}"
    click.echo(f"{name}: {sweep.key} of {where}, {sweep.seeds} runs per value", err=True)
    resource = sweeping.resource(table, sweep)
    if table["backend"] in VIRTUAL_TIME:
        seed_search.warm()
    done = []
    origin = Origin(of=f"sweep {name}, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC", by="sweep")
    ended = False
    with Progress(name, "runs", sweep.seeds * len(sweep.values), violations=0) as far:
        seed, ran = int(table.get("seed", 0)), Counter[str]()

        def tell(judged: Judged) -> None:
            ran["all"] += 1
            ran["violated"] += any(row.verdict is Verdict.VIOLATED for row in judged.verdicts)
            far.update(ran["all"], violations=ran["violated"])

        try:
            for step in sweeping.steps(table, sweep, seed, again, out, origin, tell):
                done.append(step)
                far.update(note=f"{sweep.key} {step.value} done")
                if not as_json:
                    far.hide()
                    say(_line(step, sweep), indent=12)
        except KeyboardInterrupt:
            ended = True
    if ended and not done:
        raise KeyboardInterrupt
    code = 130 if ended else exit_code(done)
    if as_json:
        click.echo(json.dumps({**_object(name, table, sweep, done, code), "resource": resource}))
    else:
        if ended:
            say(f"interrupted after {len(done)} of {len(sweep.values)} values")
        for line in [*_conclusion(done, sweep), *UNFENCED.get(resource, ())]:
            say(line)
    return code


def exit_code(done: Sequence[Step]) -> int:
    """The worst of all runs; a value counts as tested if one of its runs exercised everything."""
    codes = [code for step in done for code in step.codes if code != 3]
    codes += [3 for step in done if not step.tested]
    return worst_exit_code(codes, default=3)


def _line(step: Step, sweep: Sweep) -> str:
    many = len(step.codes)
    if step.broke:
        told = ", ".join(f"{name} ({times} of {many})" for name, times in step.kinds.most_common())
    elif step.tested:
        told = "held"
    else:
        told = f"not tested: {step.untested[0][0]}"
    if sweep.measure == "calibration":
        told = f"{_costs(step)}  {told}"
    if sweep.measure == "requests":
        told = f"{_requests(step)}  {told}"
    return f"  {step.value:>8}  {told}"


def _costs(step: Step) -> str:
    holds = sum(one["holds"] for one in step.measured)
    early = sum(one["false_expiries"] for one in step.measured)
    never = sum(one["never"] for one in step.measured)
    longest = [one["recovery_ns"]["max"] for one in step.measured if one["recovery_ns"]["n"]]
    waits = f"<= {max(longest) / SECOND:.1f} s" if longest else "not observed"
    lost = f", none after {never} crashes" if never else ""
    return f"{early:4} of {holds:4} holds expired too early; recovery from a crash {waits}{lost};"


def _requests(step: Step) -> str:
    """Sums over the runs of a step; latencies of the slowest run."""
    grants = sum(one["grants"] for one in step.measured)
    if not grants:
        return "no grants;"
    asked, told = (
        sum(one[name] for one in step.measured) / grants for name in ("requests", "told")
    )
    seen = [one["latency_ns"] for one in step.measured if one["latency_ns"]["n"]]
    p50, p99 = (max(one[name] for one in seen) / MILLISECOND for name in ("p50", "p99"))
    return (
        f"{grants:6} grants: {asked:6.2f} requests and {told:6.2f} waits per grant;"
        f" acquire p50 {p50:.0f} ms, p99 {p99:.0f} ms;"
    )


def _conclusion(done: Sequence[Step], sweep: Sweep) -> list[str]:
    broke, held = sweeping.smallest(done)
    before = f"; held at {held.value}" if held else ""
    if broke:
        lines = [f"smallest value with a violation: {broke.value}{before}"]
    elif held:
        lines = [f"no violation up to {held.value}"]
    else:
        lines = ["no value was tested"]
    if sweep.measure == "calibration":
        lines = advice(done)
    elif sweep.measure == "requests" and not broke:
        lines = ["a rejected poll counts as a wait; traffic between servers is not counted"]
    return lines


def section_p99_ns(done: Sequence[Step]) -> int | None:
    """p99 of the critical section, from the steps without early expiries."""
    whole = [one for step in done for one in step.measured if not one["false_expiries"]]
    spans = [one["section_ns"]["p99"] for one in whole if one["section_ns"]["n"]]
    return max(spans, default=None)


def advice(done: Sequence[Step]) -> list[str]:
    """Advice for choosing a lease."""
    enough = [step for step in done if not any(one["false_expiries"] for one in step.measured)]
    p99_ns = section_p99_ns(done)
    if not enough or p99_ns is None:
        return ["every lease expired under a live owner: try longer ones"]
    never = [
        f"without a lease a crashed holder deadlocks its lock: {deaths} of {deaths} crashes"
        for step in done
        if step.value == sweeping.NO_LEASE
        and (deaths := sum(one["never"] for one in step.measured))
        and not sum(one["recovery_ns"]["n"] for one in step.measured)
    ]
    low, high = (times * p99_ns / SECOND for times in SECTIONS)
    return [
        f"shortest lease without an early expiry: {enough[0].value}",
        f"critical section p99 {p99_ns / SECOND:.2f} s; {SECTIONS[0]} to"
        f" {SECTIONS[1]} times that is a lease of {low:.1f} to {high:.1f} s",
        "a longer pause can still outlast the lease: only fencing tokens stop late requests",
        *never,
    ]


def _object(
    name: str, table: Mapping[str, Json], sweep: Sweep, done: Sequence[Step], code: int
) -> dict[str, Json]:
    broke, held = sweeping.smallest(done)
    return {
        "schema": "holdfast-sweep/1",
        "scenario": name,
        "system": table["system"],
        "backend": table["backend"],
        "key": sweep.key,
        "seed": table.get("seed", 0),
        "runs": sweep.seeds,
        "exit_code": code,
        "breaks": broke.value if broke else None,
        "held": held.value if held else None,
        "section_p99_ns": section_p99_ns(done) if sweep.measure == "calibration" else None,
        "steps": [
            {
                "value": step.value,
                "broke": step.broke,
                "tested": step.tested,
                "findings": dict(step.kinds),
                "measured": list(step.measured),
            }
            for step in done
        ],
    }
