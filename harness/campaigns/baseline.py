"""The baseline of a gate: a TOML file with coverage, measures and known issues.

It contains no violations. A known issue is suppressed by a `[[known]]` table, which needs
a reason and a day of expiry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import NotRequired, TypedDict

import msgspec

from holdfast.harness.campaigns import sums
from holdfast.harness.campaigns.results import MEASURES, Result, failed, without_hash
from holdfast.harness.core import toml
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.plans.plan import suggest
from holdfast.harness.properties import PROPERTIES

SCHEMA = "holdfast-baseline/1"
CELL_KEYS = ("cell", "property", "exercised", "runs", "opportunities")
MEASURE_KEYS = ("cell", "name", "values")
KNOWN_KEYS = ("system", "property", "cell", "reason", "expires")


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownIssue:
    """A known issue: this property may be violated, for this reason, until this day (inclusive).

    system   for a user's system, the name alone covers any description of it, NAME@HASH only
             that one
    cell ""  covers every cell of the system
    """

    system: str
    property: str
    reason: str
    expires: date
    cell: str = ""

    def covers(self, result: Result) -> bool:
        """Whether a run is covered by this known issue."""
        cells = ("", result.cell, without_hash(result.cell))
        return self.system in (result.system, without_hash(result.system)) and self.cell in cells


class _Coverage(TypedDict):
    """One row of [[cell]]. opportunities: of these runs; absent if none were counted."""

    cell: str
    property: str
    exercised: int
    runs: int
    opportunities: NotRequired[int]


class _Measure(TypedDict):
    """One row of [[measure]]."""

    cell: str
    name: str
    values: list[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """exercised: (cell, property) -> (runs that exercised it, all runs)

    measures: (cell, measure) -> one value per run
    opportunities: (cell, property) -> their number in all runs, where they are counted
    """

    exercised: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    measures: Mapping[tuple[str, str], Sequence[float]] = field(default_factory=dict)
    known: Sequence[KnownIssue] = ()
    opportunities: Mapping[tuple[str, str], int] = field(default_factory=dict)


def read(path: Path) -> Baseline:
    """The baseline in a file. UsageError if it is missing, or with one line per mistake."""
    try:
        table = toml.loads(path.read_text())
    except FileNotFoundError as error:
        raise UsageError(
            f"{path}: no such baseline; create one from good runs with --update-baseline"
        ) from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    problems: list[str] = []
    if table.get("schema") != SCHEMA:
        problems.append(f"{path}: unsupported schema {table.get('schema')!r}: expected {SCHEMA!r}")
    for key in table:
        if key not in ("schema", "cell", "measure", "known"):
            problems.append(f"{path}: {suggest(key, ('cell', 'measure', 'known'), 'table')}")
    cells = _rows(table, "cell", CELL_KEYS, path, problems)
    measures = _rows(table, "measure", MEASURE_KEYS, path, problems)
    known = [
        _known(row, n, path, problems)
        for n, row in enumerate(_rows(table, "known", KNOWN_KEYS, path, problems), 1)
    ]
    if problems:
        raise UsageError(*problems)
    try:
        covered = msgspec.convert(cells, list[_Coverage], strict=False)
        return Baseline(
            exercised={
                (row["cell"], row["property"]): (row["exercised"], row["runs"]) for row in covered
            },
            opportunities={
                (row["cell"], row["property"]): row["opportunities"]
                for row in covered
                if "opportunities" in row
            },
            measures={
                (row["cell"], row["name"]): row["values"]
                for row in msgspec.convert(measures, list[_Measure], strict=False)
            },
            known=[one for one in known if one is not None],
        )
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: missing or invalid value: {error}") from error


def _rows(
    table: Mapping[str, Json], name: str, keys: Sequence[str], path: Path, problems: list[str]
) -> list[dict[str, object]]:
    rows = table.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        problems.append(f"{path}: invalid {name}: expected a list of tables [[{name}]]")
        return []
    for n, row in enumerate(rows, 1):
        problems += [f"{path}: {name} {n}: {suggest(k, keys, 'key')}" for k in row if k not in keys]
    return rows


def _known(row: Mapping[str, object], n: int, path: Path, problems: list[str]) -> KnownIssue | None:
    """One known issue; None if it is invalid."""
    wrong = []
    for key in ("system", "property", "reason"):
        text = row.get(key)
        if not isinstance(text, str) or not text.strip():
            wrong.append(f"missing {key}: a suppression has system, property, reason and expires")
    prop = row.get("property")
    if isinstance(prop, str) and prop.strip() and prop not in PROPERTIES:
        wrong.append(suggest(prop, PROPERTIES, "property"))
    expires = row.get("expires")
    try:
        day = expires if type(expires) is date else date.fromisoformat(str(expires))
    except ValueError:
        wrong.append(f"invalid expires = {expires!r}: expected a day like 2027-01-31")
    if wrong:
        problems += [f"{path}: known {n}: {problem}" for problem in wrong]
        return None
    return KnownIssue(
        system=str(row["system"]),
        property=str(prop),
        reason=str(row["reason"]),
        expires=day,
        cell=str(row.get("cell", "")),
    )


def of_results(results: Sequence[Result], known: Sequence[KnownIssue]) -> Baseline:
    """A baseline from these runs: coverage and measures; the known issues stay."""
    exercised: dict[tuple[str, str], tuple[int, int]] = {}
    measures: dict[tuple[str, str], list[float]] = {}
    counted: dict[tuple[str, str], int] = {}
    for result in results:
        if failed(result):
            continue
        sum_of = sums.of_properties([result])
        for prop, one in result.properties.items():
            tried, runs = exercised.get((result.cell, prop), (0, 0))
            # One row of the table may be missing: the next run makes up for it.
            seen = one.exercised or sum_of[prop].tried
            exercised[result.cell, prop] = (tried + seen, runs + 1)
            if one.seen:
                before = counted.get((result.cell, prop), 0)
                counted[result.cell, prop] = before + sum_of[prop].opportunities
        for name, value in result.measures.items():
            measures.setdefault((result.cell, name), []).append(value)
    return Baseline(exercised=exercised, measures=measures, known=known, opportunities=counted)


def to_toml(baseline: Baseline) -> str:
    """The baseline as text for `read`; the same runs give the same text."""
    lines = [f"schema = {toml.quoted(SCHEMA)}"]
    for one in baseline.known:
        lines += ["", "[[known]]", f"system = {toml.quoted(one.system)}"]
        lines += [f"property = {toml.quoted(one.property)}"]
        lines += [f"cell = {toml.quoted(one.cell)}"] if one.cell else []
        lines += [f"reason = {toml.quoted(one.reason)}", f"expires = {one.expires.isoformat()}"]
    for (cell, prop), (exercised, runs) in sorted(baseline.exercised.items()):
        lines += ["", "[[cell]]", f"cell = {toml.quoted(cell)}", f"property = {toml.quoted(prop)}"]
        lines += [f"exercised = {exercised}", f"runs = {runs}"]
        if (cell, prop) in baseline.opportunities:
            lines.append(f"opportunities = {baseline.opportunities[cell, prop]}")
    for (cell, name), values in sorted(baseline.measures.items()):
        if name in MEASURES:
            lines += ["", "[[measure]]", f"cell = {toml.quoted(cell)}"]
            lines += [
                f"name = {toml.quoted(name)}",
                f"values = {[float(value) for value in values]}",
            ]
    return "\n".join(lines) + "\n"
