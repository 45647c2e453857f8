"""Sweeps: runs one plan with different values of one key, to find where it breaks or its cost.

A sweep is a plan file with a table [sweep]: `key` (lease, clients, options.gap_ms, fault.for,
nemesis.by ...), `values` in order, `seeds` per value, and `measure`.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.catalogue import VIRTUAL_TIME
from holdfast.checkers.evidence.costs import calibration, crowding
from holdfast.engine import runner, seed_search
from holdfast.engine.trials import Shown, of_verdicts
from holdfast.harness.core.case import Case
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.history import reader
from holdfast.harness.judging.run_case import case_of
from holdfast.harness.plans.manifest import OWN, Origin
from holdfast.harness.plans.plan import Plan, parse, suggest
from holdfast.harness.runs import directory, journal
from holdfast.harness.verdicts.judged import Judged
from holdfast.planning import prepare
from holdfast.planning.resolve import on_this_machine

MEASURES: dict[str, Callable[[Case], Mapping[str, object]] | None] = {
    "breaks": None,
    "calibration": calibration,
    "requests": crowding,
}
KEYS = ("key", "values", "seeds", "measure")
IN_LISTS = ("fault", "nemesis")
NO_LEASE = "none"
"""As a value of the key `lease`: holds end by their release only. The plan's own lease still says
how often clients renew. For systems with the option `leases`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """measure "breaks": which value violates something; "calibration": what a lease costs;
    "requests": what a grant costs.
    """

    key: str
    values: tuple[str, ...]
    seeds: int
    measure: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Results of the runs at one value, one entry per run."""

    value: str
    shown: tuple[tuple[Shown, ...], ...]
    codes: tuple[int, ...]
    untested: tuple[tuple[str, ...], ...]
    measured: tuple[Mapping[str, Any], ...]

    @property
    def broke(self) -> int:
        """Number of runs with a violation, promised or not."""
        return sum(bool(one) for one in self.shown)

    @property
    def tested(self) -> bool:
        """Whether a run violated a property, or exercised all required ones."""
        return bool(self.broke) or any(not one for one in self.untested)

    @property
    def kinds(self) -> Counter[str]:
        """Property and kind of each finding -> number of runs."""
        return Counter(shown.name for one in self.shown for shown in one)


def read(table: dict[str, Json], where: str) -> Sweep:
    """Takes the table [sweep] out of a plan's. UsageError with every mistake."""
    told = table.pop("sweep", None)
    if not isinstance(told, dict):
        raise UsageError(f"{where}: missing table [sweep] with key and values")
    problems = [f"{where}: sweep: {suggest(key, KEYS, 'key')}" for key in told if key not in KEYS]
    key, values, measure = told.get("key"), told.get("values"), told.get("measure", "breaks")
    seeds = told.get("seeds", 1)
    if not isinstance(key, str):
        problems.append(
            f'{where}: sweep: invalid key {key!r}: expected a string, as in key = "lease"'
        )
    if not isinstance(values, list) or not values:
        problems.append(f"{where}: sweep: invalid values: expected a list with at least one value")
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1:
        problems.append(f"{where}: sweep: invalid seeds: expected a whole number >= 1")
    if measure not in MEASURES:
        problems.append(f"{where}: sweep: {suggest(str(measure), tuple(MEASURES), 'measure')}")
    if problems:
        raise UsageError(*problems)
    assert isinstance(key, str) and isinstance(values, list) and isinstance(seeds, int)
    return Sweep(key=key, values=tuple(map(str, values)), seeds=seeds, measure=measure)


def at(table: Mapping[str, Any], key: str, value: str) -> dict[str, object]:
    """The plan's table with one value of the key. UsageError if the plan has no such key."""
    changed = copy.deepcopy(dict(table))
    place, dot, name = key.partition(".")
    if key == "lease" and value == NO_LEASE:
        changed.setdefault("options", {})["leases"] = NO_LEASE
    elif not dot:
        changed[key] = int(value) if value.isdigit() else value
    elif place == "options":
        changed.setdefault("options", {})[name] = value
    elif place in IN_LISTS and changed.get(place):
        for row in changed[place]:
            row[name] = value
    else:
        raise UsageError(f"sweep: key {key!r} does not exist in this plan")
    return changed


def steps(
    table: Mapping[str, Json],
    sweep: Sweep,
    seed: int,
    again: str,
    out: Path,
    origin: Origin = OWN,
    tell: Callable[[Judged], object] = lambda judged: None,
) -> Iterator[Step]:
    """The runs of each value, in the order of the values. UsageError before the first of them.

    tell: is called with the verdict of each run.
    """
    plans = {value: plan_at(table, sweep, value) for value in sweep.values}
    measure = MEASURES[sweep.measure]
    for value, plan in plans.items():
        done = []
        for n in range(sweep.seeds):
            done.append(_one(replace(plan, seed=seed + n), again, out, origin))
            tell(done[-1][0])
        yield Step(
            value=value,
            shown=tuple(of_verdicts(verdicts) for verdicts, _ in done),
            codes=tuple(verdicts.exit_code for verdicts, _ in done),
            untested=tuple(_untested(verdicts) for verdicts, _ in done),
            measured=tuple(measure(case) for _, case in done) if measure else (),
        )


def resource(table: Mapping[str, Json], sweep: Sweep) -> str:
    """The kind of protected resource in the runs: the system's own if the plan names none."""
    return prepare.complete(plan_at(table, sweep, sweep.values[0])).resource


def plan_at(table: Mapping[str, Json], sweep: Sweep, value: str) -> Plan:
    """The plan of one value, faults not sampled yet; UsageError if it cannot be run."""
    plan = parse(at(table, sweep.key, value), prepare.KNOWN, f"sweep {sweep.key}={value}")
    # A plan that does not say how many servers it wants takes as many as the system has.
    given = "nodes" in table or sweep.key == "nodes"
    plan = plan if given else replace(plan, nodes=0)
    on_this_machine(plan, "sweeps")
    prepare.complete(plan)
    return plan


def _one(plan: Plan, again: str, out: Path, origin: Origin) -> tuple[Judged, Case]:
    full = prepare.prepared(plan)
    if full.plan.backend in VIRTUAL_TIME:
        ran = seed_search.in_memory(prepare.manifest(full, f"sim-{full.plan.seed}", again))
        return ran.verdicts, ran.case
    verdicts = runner.carry_out(full, out, again, quiet=True, origin=origin)
    run = directory.RunDir(Path(verdicts.report).parent)
    recording = reader.load(run.history)
    marks, faults = journal.marks(run), journal.faults(run)
    return verdicts, case_of(run.read_manifest(), recording, marks, faults)


def _untested(judged: Judged) -> tuple[str, ...]:
    rows = [row for row in judged.verdicts if row.verdict is Verdict.UNKNOWN]
    kinds = (
        f"{row.property} under {kind}: {why}"
        for row in judged.verdicts
        if row.verdict is Verdict.HOLDS
        for kind, why in row.not_exercised().items()
    )
    return (*judged.problems, *(f"{row.property}: {row.reason}" for row in rows), *kinds)


def smallest(done: Sequence[Step]) -> tuple[Step | None, Step | None]:
    """The first step with a violation, and the last one before it that was exercised and held."""
    held = None
    for step in done:
        if step.broke:
            return step, held
        held = step if step.tested else held
    return None, held
