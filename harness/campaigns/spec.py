"""Specification of a campaign: turns a TOML file into the ordered list of its runs.

The file lists systems, workloads, nemeses and seeds, or scenarios, each of which has its own
workload and faults; each combination is a cell, each cell has one run per seed. All mistakes are
reported at once.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from holdfast.harness.campaigns.results import CALM, planned, staged
from holdfast.harness.core.durations import duration_ns
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.plans.plan import Known, Plan, parse, parse_nemesis, suggest, to_toml

SCHEMA = "holdfast-campaign/1"
AXES = {"systems": "system", "workloads": "workload", "nemeses": "nemesis"}
"""A list in the file -> the key of a plan that gets each of its values."""
SCENARIOS = "scenarios"
"""A list in the file; each value replaces a workload and a nemesis."""
PLAN_KEYS = (
    "backend", "resource", "time", "lease", "nodes", "clients", "locks", "checkers", "require",
    "options",
)  # fmt: skip
STOP = "stop_below"
"""A rate: a cell needs no more runs once everything it exercised is violated or rarer than this."""
MORE = "more_seeds"
"""How many further seeds a cell may run until its promises have their opportunities."""
MORE_AT_MOST = 20
"""Upper bound of the default of MORE, which is the number of seeds of the cell."""
ENTRY_KEYS = (*AXES, SCENARIOS, *PLAN_KEYS, "seeds", "first_seed", STOP, MORE, "swarm", "name")
DRAWN = ("workloads", "nemeses", SCENARIOS, *(key for key in PLAN_KEYS if key != "options"))
"""Keys that a swarm samples from the seed, and `require`: what a sampled run tests is not known."""
_ABOVE = ("backend", "options", "require")
OWN = ("workloads", "nemeses", *(key for key in PLAN_KEYS if key not in _ABOVE))
"""Keys that a scenario's file defines; values above all entries are ignored."""
BUDGET_KEYS = ("time", "runs")
SWARM = "swarm"
Stage = Callable[[str, Mapping[str, Json], Sequence[str]], Mapping[str, Json]]
"""(scenario, overriding keys of a plan, workloads) -> table of a plan. UsageError."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One run to execute.

    key     a readable name that is different for every different run, also between files
    cell    number of its cell
    swarm   `plan` has only system, seed and options; the seed decides the rest
    seen    properties of which its cell has a violated run: of a simulated run that violates no
            other, the command is kept and no directory
    """

    key: str
    cell: int
    plan: Plan
    swarm: bool
    seen: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One combination. `plan` has the first seed; nodes 0: the system's default.

    stop_below   rate of violations below which it needs no more runs; 0: all seeds run
    more_seeds   how many further seeds it may run while it lacks opportunities alone
    """

    plan: Plan
    swarm: bool
    seeds: Sequence[int]
    stop_below: float = 0.0
    more_seeds: int = 0

    @property
    def further(self) -> Sequence[int]:
        """The further seeds: those behind its largest."""
        first = max(self.seeds, default=0) + 1
        return range(first, first + self.more_seeds)

    @property
    def says(self) -> str:
        """The combination as text."""
        if self.swarm:
            return f"{self.plan.system} / sim / {SWARM}"
        plan = self.plan
        kinds = planned(name for name, _ in plan.nemeses)
        faults = staged(plan.scenario) if plan.scenario else kinds
        return f"{plan.system} / {plan.backend} / {plan.workload} / {faults}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CampaignSpec:
    """All cells, and their budget. runs 0, time_ns 0: no bound."""

    name: str
    cells: Sequence[Cell]
    time_ns: int = 0
    runs: int = 0

    def jobs(self, version: str) -> Iterator[Job]:
        """Every run: first seed of each cell, then second, so that a budget covers all cells."""
        yield from self._jobs([cell.seeds for cell in self.cells], version)

    def further_jobs(self, version: str) -> Iterator[Job]:
        """The runs of the further seeds, in the same order; only cells that lack opportunities
        carry them out."""
        yield from self._jobs([cell.further for cell in self.cells], version)

    def _jobs(self, seeds: Sequence[Sequence[int]], version: str) -> Iterator[Job]:
        longest = max(map(len, seeds), default=0)
        for n, (number, cell) in itertools.product(range(longest), enumerate(self.cells)):
            if n < len(seeds[number]):
                plan = replace(cell.plan, seed=seeds[number][n])
                yield Job(key=_key(plan, cell, version), cell=number, plan=plan, swarm=cell.swarm)

    @property
    def size(self) -> int:
        """Total number of runs."""
        return sum(len(cell.seeds) for cell in self.cells)


def _key(plan: Plan, cell: Cell, version: str) -> str:
    exact = f"{version}\n{cell.swarm}\n{plan.nodes}\n{to_toml(plan, exact=False)}{plan.scenario}"
    words = cell.says.replace(" / ", "-").rpartition("/")[2]
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", words).strip("-.")[:80]
    return f"{name}-{plan.seed}-{hashlib.sha256(exact.encode()).hexdigest()[:8]}"


@dataclass(slots=True)
class _Reading:
    """State of parsing a file: results and problems so far."""

    known: Known
    where: str
    stage: Stage
    problems: list[str] = field(default_factory=list)

    def wrong(self, place: str, problem: str) -> None:
        line = f"{self.where}: {place}{problem}"
        if line not in self.problems:
            self.problems.append(line)


def read(
    table: Mapping[str, Json], known: Known, where: str, name: str, stage: Stage
) -> CampaignSpec:
    """A campaign out of a TOML table; UsageError with one line per mistake.

    name: its default name.
    """
    reading = _Reading(known=known, where=where, stage=stage)
    schema = table.get("schema", SCHEMA)
    if schema != SCHEMA:
        reading.wrong("", f"unsupported schema {schema!r}: expected {SCHEMA!r}")
    common = {key: value for key, value in table.items() if key in ENTRY_KEYS and key != "name"}
    for key in table:
        if key not in (*ENTRY_KEYS, "schema", "budget", "entry"):
            reading.wrong("", suggest(key, (*ENTRY_KEYS, "schema", "budget", "entry"), "key"))
    entries = table.get("entry")
    if entries is None:
        entries, common = [common], {}
    if not isinstance(entries, list) or not all(isinstance(row, dict) for row in entries):
        reading.wrong("", "invalid entry: expected a list of tables [[entry]]")
        entries = []
    cells: list[Cell] = []
    for n, row in enumerate(entries, 1):
        place = f"entry {row.get('name', n)}: " if "entry" in table else ""
        cells += _entry({**_usual(common, row), **row}, place, reading)
    time_ns, runs = _budget(table.get("budget", {}), reading)
    if not cells and not reading.problems:
        reading.wrong("", "no runs: name at least one system")
    if reading.problems:
        raise UsageError(*reading.problems)
    return CampaignSpec(name=str(table.get("name", name)), cells=cells, time_ns=time_ns, runs=runs)


def _usual(common: Mapping[str, Json], row: Mapping[str, Json]) -> dict[str, Json]:
    """The keys above all entries that apply to this entry."""
    both = {**common, **row}
    without: Sequence[str] = DRAWN if both.get(SWARM) is True else OWN if SCENARIOS in both else ()
    return {key: value for key, value in common.items() if key not in without}


def _budget(table: object, reading: _Reading) -> tuple[int, int]:
    if not isinstance(table, dict):
        reading.wrong("", "invalid budget: expected a table [budget]")
        return 0, 0
    for key in table:
        if key not in BUDGET_KEYS:
            reading.wrong("budget: ", suggest(key, BUDGET_KEYS, "key"))
    time_ns, runs = 0, table.get("runs", 0)
    try:
        time_ns = duration_ns(str(table["time"])) if "time" in table else 0
    except UsageError as error:
        reading.wrong("budget: time: ", str(error))
    if not _whole(runs, 0) or time_ns < 0:
        reading.wrong("budget: ", "invalid runs or time: expected >= 0")
        runs = 0
    return time_ns, runs


def _whole(value: object, least: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _entry(row: Mapping[str, Json], place: str, reading: _Reading) -> list[Cell]:
    """The valid cells of one entry."""
    for key in row:
        if key not in ENTRY_KEYS:
            reading.wrong(place, suggest(key, ENTRY_KEYS, "key"))
    seeds = _seeds(row, place, reading)
    stop_below = _rate(row.get(STOP, 0), place, reading)
    more = _more(row, seeds, place, reading)
    if row.get("swarm") not in (None, True, False):
        reading.wrong(place, f"invalid swarm = {row['swarm']!r}: expected true or false")
    swarm = row.get("swarm") is True
    swarms = {"backend": reading.known.swarm_backend}
    drawn = [key for key in row if key in DRAWN and row[key] != swarms.get(key)]
    if swarm and drawn:
        reading.wrong(place, f"swarm samples {', '.join(drawn)} from the seed; remove it")
        return []
    if SCENARIOS in row:
        cells = _scenes(row, seeds, place, reading)
        return [replace(cell, stop_below=stop_below, more_seeds=more) for cell in cells]
    axes = [_axis(row, axis, place, reading) for axis in AXES]
    if not axes[0] and "systems" not in row:
        reading.wrong(place, 'missing systems, as in systems = ["reference"]')
    base = {key: row[key] for key in PLAN_KEYS if key in row}
    base |= swarms if swarm else {}
    cells = []
    for combination in itertools.product(*axes):
        plan = _plan(base, dict(zip(AXES.values(), combination, strict=True)), place, reading)
        if plan is not None:
            cell = Cell(plan=plan, swarm=swarm, seeds=seeds, stop_below=stop_below)
            cells.append(replace(cell, more_seeds=more))
    return cells


def _more(row: Mapping[str, Json], seeds: Sequence[int], place: str, reading: _Reading) -> int:
    """Number of further seeds. By default none of a swarm, whose faults differ from run to run, and
    none beside a list of seeds."""
    listed = isinstance(row.get("seeds"), list) or row.get(SWARM) is True
    more = row.get(MORE, 0 if listed else min(len(seeds), MORE_AT_MOST))
    if _whole(more, 0):
        return more
    reading.wrong(place, f"invalid {MORE} = {more!r}: expected a number >= 0")
    return 0


def _rate(value: object, place: str, reading: _Reading) -> float:
    """A rate as in "1%", as a fraction; 0: none is given."""
    if value == 0 and not isinstance(value, bool):
        return 0.0
    match = re.fullmatch(r"(\d{1,2}(?:\.\d+)?) ?%", value) if isinstance(value, str) else None
    rate = float(match[1]) / 100 if match else 0.0
    if not rate:
        reading.wrong(place, f'invalid {STOP} = {value!r}: expected a rate, as in {STOP} = "1%"')
    return rate


def _scenes(
    row: Mapping[str, Json], seeds: Sequence[int], place: str, reading: _Reading
) -> list[Cell]:
    """The cells of an entry with scenarios: each on every system, or on the one of its file."""
    if "nemeses" in row:
        reading.wrong(place, "scenarios define their own faults; put nemeses into another entry")
    over = {key: row[key] for key in PLAN_KEYS if key in row}
    over["backend"] = row.get("backend", Plan(system="").backend)
    if not isinstance(over.get("options", {}), dict) or not isinstance(over["backend"], str):
        reading.wrong(place, "invalid options or backend: expected a table and a name")
        return []
    systems = _axis(row, "systems", place, reading) if "systems" in row else [""]
    workloads = _axis(row, "workloads", place, reading) if "workloads" in row else []
    cells = []
    for system, name in itertools.product(systems, _axis(row, SCENARIOS, place, reading)):
        chosen = {**over, "system": system} if system else over
        try:
            table = reading.stage(name, chosen, workloads)
            plan = replace(parse(table, reading.known, "plan"), scenario=name)
        except UsageError as error:
            for problem in error.problems:
                reading.wrong(place, problem.removeprefix("plan: "))
            continue
        plan = plan if "nodes" in table else replace(plan, nodes=0)
        cells.append(Cell(plan=plan, swarm=False, seeds=seeds))
    return cells


def _axis(row: Mapping[str, Json], axis: str, place: str, reading: _Reading) -> list[str]:
    standard = {"workloads": ["critical-section"], "nemeses": [CALM]}
    values = row.get(axis, standard.get(axis, []))
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        known = {
            "systems": reading.known.systems,
            "workloads": reading.known.workloads,
            "nemeses": reading.known.nemeses,
        }
        like = next(iter(known.get(axis, ("owner-pause",))))
        reading.wrong(place, f'invalid {axis}: expected a list of names, as in {axis} = ["{like}"]')
        return []
    return list(dict.fromkeys(values))


def _seeds(row: Mapping[str, object], place: str, reading: _Reading) -> Sequence[int]:
    """A number of seeds from first_seed on, or the seeds themselves."""
    seeds, first = row.get("seeds", 1), row.get("first_seed", 1)
    if isinstance(seeds, list) and "first_seed" in row:
        reading.wrong(place, "first_seed has no effect with a list of seeds; remove it")
    elif isinstance(seeds, list) and seeds and all(_whole(seed, 0) for seed in seeds):
        return tuple(dict.fromkeys(seeds))
    elif _whole(seeds, 1) and _whole(first, 0):
        return range(first, first + seeds)
    elif _whole(seeds, 1):
        reading.wrong(place, f"invalid first_seed = {first!r}: expected a whole number >= 0")
    else:
        reading.wrong(
            place, f"invalid seeds = {seeds!r}: expected a number >= 1 or a list of seeds"
        )
    return ()


def _plan(
    base: Mapping[str, Json], chosen: Mapping[str, str], place: str, reading: _Reading
) -> Plan | None:
    """The plan of one combination with its first seed; None if it is invalid."""
    table: dict[str, Json] = {**base, "system": chosen["system"], "workload": chosen["workload"]}
    try:
        if chosen["nemesis"]:
            named = parse_nemesis(chosen["nemesis"])
            table["nemesis"] = [{"name": name, **options} for name, options in named]
        plan = parse(json.loads(json.dumps(table)), reading.known, "plan")
    except UsageError as error:
        for problem in error.problems:
            reading.wrong(place, problem.removeprefix("plan: "))
        return None
    return plan if "nodes" in table else replace(plan, nodes=0)
