"""`holdfast sim`: many seeds in the simulator, with a random plan per seed."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import click

from holdfast import catalogue
from holdfast.catalogue.mutants import MUTANTS
from holdfast.commands.options import Command, Whole, name_of, span
from holdfast.engine import changed_lines, shrinker, swarm
from holdfast.engine.seed_search import Seed, SeedTally, explore
from holdfast.engine.swarm import Way
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.plans.plan import FILE, suggest
from holdfast.planning import prepare
from holdfast.reports.text.layout import aligned, say, width
from holdfast.reports.text.progress import Progress

SHOWN = 5
SHRUNK = Path(".holdfast/shrunk")
SHRINK_NS = 600 * SECOND
USUAL_SEEDS = 100


@click.command(
    cls=Command,
    examples=(
        "holdfast sim --seeds 500",
        "holdfast sim --system redlock --budget 60s --shrink",
        "holdfast sim --mutant wide-quorum",
    ),
)
@click.option(
    "--system",
    show_default="the mutant's, else reference",
    help="Lock service under test.",
    shell_complete=name_of("systems"),
)
@click.option("--seeds", type=Whole(1), show_default="100", help="Number of seeds.")
@click.option(
    "--budget",
    callback=span,
    metavar="DURATION",
    help="Run as many seeds as fit in this time, instead of --seeds.",
)
@click.option("--first-seed", type=Whole(0), default=1, show_default=True, help="First seed.")
@click.option(
    "--mutant",
    help="Plant this bug, and stop at the first seed that shows it.",
    shell_complete=name_of("mutants"),
)
@click.option(
    "--workload",
    show_default="a random one per seed",
    help="Run this workload (or FILE.py:NAME) in every seed; all else stays random.",
    shell_complete=name_of("workloads"),
)
@click.option(
    "--draw",
    type=click.Choice([way.value for way in Way]),
    default=Way.PLAIN.value,
    show_default=True,
    help="How seeds are drawn: each by itself, or for what a defect needs to show (faults shorter"
    " than the lease, silent owners, workloads in turns).",
)
@click.option(
    "--since",
    metavar="REV",
    help="Prefer workloads that run lines changed since this Git revision of the current"
    " folder's repository.",
)
@click.option("--shrink", is_flag=True, help="Shrink the first violation to a minimal plan.")
@click.option(
    "--no-trace",
    is_flag=True,
    help="Do not validate the steps of servers against their specification; implied by --shrink.",
)
@click.option("-j", "processes", type=Whole(1), show_default="one per core", help="Processes.")
@click.option(
    "--twice-every",
    type=Whole(0),
    default=50,
    show_default=True,
    help="Re-run every N-th seed in a fresh process to check determinism; 0: never.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    system: str | None,
    seeds: int | None,
    budget: int | None,
    first_seed: int,
    mutant: str | None,
    workload: str | None,
    draw: str,
    since: str | None,
    shrink: bool,
    no_trace: bool,
    processes: int | None,
    twice_every: int,
    as_json: bool,
) -> int:
    """Search for violations in the simulator, one run per seed.

    Each seed determines a whole run: service options, workload, faults, network, disks and
    clocks. Every run ends with all faults healed and every lock probed, and is judged like any
    other run.

    The steps of the servers are validated against the executable specification of their service,
    if it has one. A step that the specification does not allow is a departure: a finding about the
    implementation, not a violated promise. Exit code 3, like a server that exits unexpectedly.

    With --mutant the search ends at the first seed that violates the property which the bug
    breaks in a way that the unmodified service does not, that fails an assertion inside a
    server, or that departs from the specification. Exit code then: 1 found; 3 not found.

    With --since, three seeds of each workload tell which changed lines it runs. Most seeds then
    get a workload that runs changed lines; a fifth are sampled as usual.
    """
    _check(system, mutant, workload, since)
    way, given = Way(draw), {"mutant": mutant} if mutant else {}
    system = system or (MUTANTS[mutant].system if mutant else "reference")
    over_s = time.monotonic() + budget / SECOND if budget else float("inf")
    weights, tally = None if since is None else _weights(since, system, given), SeedTally()
    click.echo(f"{system} in the simulator, from seed {first_seed}", err=True)
    searched = explore(
        _numbers(first_seed, seeds, budget),
        system,
        given,
        processes or len(os.sched_getaffinity(0)),
        lambda: time.monotonic() >= over_s or bool(tally.found),
        workload or "",
        twice_every,
        validated=not (no_trace or shrink),
        weights=weights,
        way=way,
    )
    next_seed = _collect(searched, tally, first_seed, _progress(system, seeds, budget))
    small = _shrink(tally, system, given, way) if shrink and next_seed is None else None
    again = _again(system, mutant, way)
    if as_json:
        _print_table(_table(tally, system, first_seed, mutant), small)
    else:
        _show_all(tally, mutant, again, small)
    _say_where(next_seed, tally, again)
    interrupted = small is not None and small[0].ended == shrinker.INTERRUPTED
    return 130 if interrupted else _exit_code(tally, mutant)


def _progress(system: str, seeds: int | None, budget: int | None) -> Progress:
    """Shows how many seeds are done, and what is left of them or of the time."""
    total = None if seeds is None and budget is not None else seeds or USUAL_SEEDS
    left_s = budget / SECOND if budget else None
    return Progress(system, "seeds", total, violations=0, budget_s=left_s)


def _numbers(first_seed: int, seeds: int | None, budget: int | None) -> Iterator[int]:
    """The seeds to run: 100 unless it is said how many or how long."""
    if seeds is None and budget is not None:
        return itertools.count(first_seed)
    return iter(range(first_seed, first_seed + (USUAL_SEEDS if seeds is None else seeds)))


def _weights(since: str, system: str, given: Mapping[str, str]) -> Mapping[str, float] | None:
    """Weights of workloads by the functions that a change touches; None: the usual ones."""
    functions = changed_lines.changed(since, Path.cwd())
    if not functions:
        click.echo(f"no function changed since {since}: workloads as usual", err=True)
        return None
    found = changed_lines.weighted(functions, system, given)
    click.echo(f"{len(functions)} functions changed since {since}", err=True)
    if found.unrun:
        names = ", ".join(map(str, found.unrun[:SHOWN]))
        more = f" and {len(found.unrun) - SHOWN} more" if len(found.unrun) > SHOWN else ""
        click.echo(f"  run by no workload in the simulator: {names}{more}", err=True)
    if not found.runs:
        click.echo("  workloads as usual", err=True)
        return None
    whole = sum(found.weights.values())
    parts = sorted(found.weights.items(), key=lambda part: -part[1])
    shares = ", ".join(f"{name} {weight / whole:.0%}" for name, weight in parts[:SHOWN])
    click.echo(f"  workloads: {shares}, others {_rest(found.weights):.0%}", err=True)
    return found.weights


def _rest(weights: Mapping[str, float]) -> float:
    """Share of the workloads that are not named."""
    return sum(sorted(weights.values())[:-SHOWN]) / sum(weights.values())


def _collect(found: Iterable[Seed], tally: SeedTally, first_seed: int, far: Progress) -> int | None:
    """Count every seed, in any order, and sort what is reported.

    None, or after ^C the first seed that has not been run.
    """
    done: set[int] = set()
    next_seed = None
    try:
        with far:
            for seed in found:
                tally.add(seed)
                done.add(seed.seed)
                departing = f"{len(tally.departing)} departures" if tally.departing else None
                far.update(tally.seeds, violations=len(tally.alarms), note=departing)
    except KeyboardInterrupt:
        next_seed = next(n for n in itertools.count(first_seed) if n not in done)
    for seeds in (tally.alarms, tally.found, tally.departing, tally.problems, tally.differing):
        seeds.sort(key=lambda seed: seed.seed)
    return next_seed


def _say_where(next_seed: int | None, tally: SeedTally, again: str) -> None:
    """KeyboardInterrupt with how to go on, if the search was interrupted."""
    if next_seed is not None:
        raise KeyboardInterrupt(
            f"interrupted after {tally.seeds} seeds; go on with `{again} --first-seed {next_seed}`"
        )


def _exit_code(tally: SeedTally, mutant: str | None) -> int:
    """Exit code; of a search for a planted bug 1 means found, 3 not found."""
    if mutant is None:
        return tally.exit_code()
    return 1 if tally.found else 4 if tally.differing else 3


def _shrink(
    tally: SeedTally, system: str, given: Mapping[str, str], way: Way
) -> tuple[shrinker.Shrunk, Path] | None:
    """Shrink the first violation and write its plan file; None without a violation. A departure is
    none: it does not show in the history by which shrinking goes."""
    seed = next(iter([*tally.found, *tally.alarms, *tally.problems]), None)
    if seed is None:
        return None
    nodes = catalogue.SYSTEMS[system].nodes
    plan = prepare.complete(swarm.draw(seed.seed, system, nodes, given, seed.workload, way))
    click.echo(f"shrink seed {seed.seed}: {shrinker.size_words(plan)}", err=True)
    found = shrinker.first_findings(plan, SHRUNK, seed.command)
    mutant = MUTANTS.get(given.get("mutant", ""))
    by_bug = [shown.prop for shown in found if mutant and shown.prop == mutant.breaks]
    wanted = shrinker.choose(found, next(iter(by_bug), None), f"seed {seed.seed}")
    shrunk = shrinker.shrink_within(plan, wanted, SHRINK_NS, SHRUNK, seed.command)
    name = "-".join([system, *given.values(), str(seed.seed)])
    file = SHRUNK / f"{name}.toml"
    shrinker.write(shrunk, file)
    return shrunk, file


def _check(system: str | None, mutant: str | None, workload: str | None, since: str | None) -> None:
    able = [name for name, row in catalogue.SYSTEMS.items() if row.simulated]
    if system is not None and system not in able:
        if system in catalogue.SYSTEMS:
            these = f"these have: {', '.join(able)}; test it with holdfast run --system {system}"
            raise UsageError(f"{system} has no simulated servers to search; {these}")
        raise UsageError(suggest(system, able, "simulated system"))
    if mutant is not None and mutant not in MUTANTS:
        raise UsageError(suggest(mutant, MUTANTS, "mutant"))
    if since is not None and workload is not None:
        raise UsageError("--since chooses workloads: not together with --workload")
    known = prepare.KNOWN.workloads
    if workload is not None and workload not in known and not FILE.fullmatch(workload):
        raise UsageError(suggest(workload, known, "workload"))


def _print_table(table: dict[str, Json], small: tuple[shrinker.Shrunk, Path] | None) -> None:
    click.echo(json.dumps({**table, **({"shrunk": shrinker.table(*small)} if small else {})}))


def _show_all(
    tally: SeedTally, mutant: str | None, again: str, small: tuple[shrinker.Shrunk, Path] | None
) -> None:
    """Print verdicts or the result of the search, then departures, then the shrunk plan."""
    if mutant:
        _show_search(tally, mutant)
    else:
        _show(tally)
    _show_departures(tally, again)
    if small:
        click.echo()
        shrinker.show(*small)


def _show(tally: SeedTally) -> None:
    for seed in tally.alarms[:SHOWN]:
        for prop, sentence in seed.alarms:
            say(f"seed {seed.seed}: {prop}: {sentence}")
        click.echo(f"  again: {seed.command}")
    for seed in tally.problems[:SHOWN]:
        say(f"seed {seed.seed}: {seed.problems[0]}")
        click.echo(f"  again: {seed.command}")
    for seed in tally.differing[:SHOWN]:
        say(f"seed {seed.seed}: different history in another process: {seed.differs}")
        click.echo(f"  again: {seed.command}")
    rows = [
        (prop, ", ".join(f"{found[word]} {word}" for word in sorted(found)))
        for prop, found in sorted(tally.verdicts.items())
    ]
    for line in aligned(rows, width()):
        click.echo(line)
    if tally.limits:
        never = ", ".join(f"{prop} ({n})" for prop, n in sorted(tally.limits.items()))
        say(f"LIMIT (violated, never promised): {never}")
    if tally.unexercised():
        say(f"exercised in no seed: {', '.join(tally.unexercised())}")
    say(_speed(tally))


def _show_search(tally: SeedTally, mutant: str) -> None:
    """Print the result of a search for a planted bug."""
    row = MUTANTS[mutant]
    for seed in tally.found[:1]:
        say(f"found {mutant} with seed {seed.seed}: {seed.found}")
        click.echo(f"  again: {seed.command}")
        say("exit code 1: the search found the planted bug; without --mutant 1 is a violation")
    if not tally.found:
        say(f"{mutant} not found in {tally.seeds} seeds: it breaks {row.breaks}")
    others = [
        f"{prop} ({kind}) in seed {seed.seed}"
        for seed in tally.alarms
        if not seed.found
        for prop, kind, _ in seed.shown
    ]
    if others:
        more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        say(f"other violations, not counted as this bug: {', '.join(others[:SHOWN])}{more}")
    say(_speed(tally))


def _again(system: str, mutant: str | None, way: Way) -> str:
    """The command that searches the same way, without its workload and seed."""
    words = ["--mutant" if mutant else "--system", mutant or system]
    drawn = ["--draw", way] if way is not Way.PLAIN else []
    return shlex.join(["holdfast", "sim", *words, *drawn])


def _show_departures(tally: SeedTally, again: str) -> None:
    """The steps of servers that their specification does not allow, apart from all verdicts."""
    if not tally.departing:
        return
    click.echo()
    say(
        f"the implementation departs from its specification in {len(tally.departing)} of"
        f" {tally.seeds} seeds (a finding about the servers, not a violated promise):"
    )
    for seed in tally.departing[:SHOWN]:
        found = seed.departure
        assert found is not None, "only departing seeds are counted here"
        say(f"seed {seed.seed}: {found.node} at {found.t_ns / SECOND:.6f} s: {found.rule}")
        say(f"  before: {found.before}")
        say(f"  allowed: {found.allows}")
        say(f"  happened: {found.happened}")
        workload = f" --workload {shlex.quote(seed.workload)}" if seed.workload else ""
        click.echo(f"  again: {again}{workload} --first-seed {seed.seed} --seeds 1")


def _speed(tally: SeedTally) -> str:
    hours, cpu_s = tally.virtual_ns / SECOND / 3600, tally.cpu_ns / SECOND
    effective = sum(tally.faults.values())
    return (
        f"{tally.seeds} seeds, {len(tally.alarms)} alarms, {len(tally.problems)} incomplete;"
        f" {hours:.2f} simulated hours, {tally.ops} rows, {effective} effective faults;"
        f" {tally.twice} re-run, {len(tally.differing)} different;"
        f" {cpu_s:.1f} s CPU to run, {tally.judge_ns / SECOND:.1f} s to judge"
        f"{_validated(tally)}"
    )


def _validated(tally: SeedTally) -> str:
    """How many steps were validated, "" without a trace."""
    if not tally.steps:
        return ""
    seconds = f"{tally.trace_ns / SECOND:.1f} s"
    departures = f"{len(tally.departing)} departures"
    return f"; {tally.steps} steps validated in {seconds}, {departures}"


def _table(tally: SeedTally, system: str, first_seed: int, mutant: str | None) -> dict[str, Json]:
    return {
        "schema": "holdfast-sim/1",
        "system": system,
        "mutant": mutant,
        "first_seed": first_seed,
        "exit_code": _exit_code(tally, mutant),
        "found": [{**_row(seed), "shows": seed.found} for seed in tally.found],
        "seeds": tally.seeds,
        "virtual_ns": tally.virtual_ns,
        "cpu_ns": tally.cpu_ns,
        "judge_ns": tally.judge_ns,
        "trace_ns": tally.trace_ns,
        "steps": tally.steps,
        "rows": tally.ops,
        "events": tally.events,
        "faults": dict(tally.faults),
        "verdicts": {prop: dict(found) for prop, found in sorted(tally.verdicts.items())},
        "limits": dict(tally.limits),
        "unexercised": tally.unexercised(),
        "twice": tally.twice,
        "differing": [{**_row(seed), "differs": seed.differs} for seed in tally.differing],
        "departures": [
            {"seed": seed.seed, "command": seed.command, **asdict(seed.departure)}
            for seed in tally.departing
            if seed.departure
        ],
        "alarms": [_row(seed) for seed in tally.alarms],
        "problems": [_row(seed) for seed in tally.problems],
    }


def _row(seed: Seed) -> dict[str, Json]:
    return {
        "seed": seed.seed,
        "digest": seed.digest,
        "command": seed.command,
        "alarms": [{"property": prop, "sentence": says} for prop, says in seed.alarms],
        "problems": list(seed.problems),
    }
