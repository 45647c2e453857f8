"""Summary of many results: counts per cell, first failure, one exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

from holdfast.harness.campaigns import sums
from holdfast.harness.campaigns.results import Result, failed, table, worst_code
from holdfast.harness.campaigns.sums import PropertySum
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.left_unknown import LeftUnknown, once

SCHEMA = "holdfast-campaign-result/2"


class Failure(TypedDict):
    """The first run that broke a promise, and the commands that repeat it."""

    key: str
    cell: str
    seed: int
    property: str
    kind: str
    sentence: str
    run: str
    commands: list[str]


class RowCount(TypedDict):
    """Opportunities of one row of the table: the runs with at least one, and their number."""

    runs: int
    count: int
    sentence: str


class CellRow(TypedDict):
    """One cell: its state in one word, numbers of runs, and runs per property.

    opportunities   property -> kind of fault -> row of the table -> runs with at least one, and
                    their number
    left_unknown    what its runs together left unknown of its promises, each cause once
    """

    cell: str
    word: str
    runs: int
    failed: int
    incomplete: int
    verdicts: dict[str, dict[str, int]]
    broken: dict[str, int]
    limits: dict[str, int]
    unexercised: list[str]
    opportunities: dict[str, dict[str, dict[str, RowCount]]]
    left_unknown: list[dict[str, object]]


class LeastTried(TypedDict):
    """The promise that the fewest runs could have shown broken."""

    property: str
    fault: str
    runs: int
    opportunities: int


class Summary(TypedDict):
    """A campaign as one JSON object.

    of: number of planned runs; not_run: cells without a run; results: rows of `results.table`
    least_tried: the promise and kind of fault with opportunities in the fewest runs, their number
    """

    schema: str
    name: str
    runs: int
    of: int
    exit_code: int
    not_run: list[str]
    first_failure: Failure | None
    least_tried: LeastTried | None
    cells: list[CellRow]
    results: list[dict[str, Any]]


@dataclass(slots=True)
class CellTally:
    """One cell. verdicts: property -> verdict -> runs; sums: the same by kind of fault, with
    opportunities."""

    says: str
    runs: int = 0
    failed: int = 0
    incomplete: int = 0
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    sums: dict[str, PropertySum] = field(default_factory=dict)
    broken: Counter[str] = field(default_factory=Counter)
    limits: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        """Count one run of the cell."""
        self.runs += 1
        self.failed += failed(result)
        self.incomplete += bool(result.problems) and not failed(result)
        for prop, one in result.properties.items():
            self.verdicts.setdefault(prop, Counter())[str(one.verdict)] += 1
            if not failed(result):
                self.sums.setdefault(prop, PropertySum()).add(result, one)
            if one.verdict is Verdict.VIOLATED:
                (self.broken if one.promised else self.limits)[prop] += 1

    def unexercised(self) -> list[str]:
        """Promised properties that neither held nor were violated in all runs together; and the
        kinds of fault under which that is so, if not all of them."""
        names = list[str]()
        for prop, one in self.sums.items():
            if one.promised and one.open:
                names.append(prop)
            elif one.promised:
                names += [f"{prop} under {kind}" for kind in one.lacking()]
        return sorted(names)

    def left_unknown(self) -> tuple[LeftUnknown, ...]:
        """The same with causes and commands, each cause once."""
        promised = {prop: one for prop, one in self.sums.items() if one.promised}
        return once(part for prop, one in promised.items() for part in one.left_unknown(prop))

    def exit_code(self) -> int:
        """1 a promise was broken; 4 a run could not be executed; 3 a promise was not exercised."""
        if self.broken:
            return 1
        if self.failed:
            return 4
        return 3 if self.incomplete or self.unexercised() else 0

    def word(self) -> str:
        """The state of the cell in one word."""
        words = {1: "VIOLATED", 4: "ENVIRONMENT", 3: "UNKNOWN"}
        return words.get(self.exit_code(), "LIMIT" if self.limits else "HOLDS")


def tally(results: Iterable[Result]) -> list[CellTally]:
    """Counts per cell, in the order of the cells."""
    cells: dict[str, CellTally] = {}
    for result in results:
        cells.setdefault(result.cell, CellTally(says=result.cell)).add(result)
    return list(cells.values())


def first_failure(results: Sequence[Result]) -> Failure | None:
    """None if no run broke a promise."""
    for result in results:
        broken = result.broken()
        if broken:
            prop, one = broken[0]
            return {
                "key": result.key,
                "cell": result.cell,
                "seed": result.seed,
                "property": prop,
                "kind": one.kind,
                "sentence": one.sentence,
                "run": result.run,
                "commands": [result.command],
            }
    return None


def summary(name: str, of: int, results: Sequence[Result], not_run: Sequence[str] = ()) -> Summary:
    """Independent of the order in which runs finished; results: in that of the campaign's file."""
    cells = tally(results)
    return {
        "schema": SCHEMA,
        "name": name,
        "runs": len(results),
        "of": of,
        "exit_code": worst_code([*(cell.exit_code() for cell in cells), *(3 for _ in not_run)]),
        "not_run": list(not_run),
        "first_failure": first_failure(results),
        "least_tried": _least_tried(results),
        "cells": [_cell_table(cell) for cell in cells],
        "results": [table(result) for result in results],
    }


def _least_tried(results: Sequence[Result]) -> LeastTried | None:
    least = sums.least_tried(results)
    if least is None:
        return None
    prop, fault, one = least
    return {
        "property": prop,
        "fault": fault,
        "runs": one.bounded,
        "opportunities": one.opportunities,
    }


def _cell_table(cell: CellTally) -> CellRow:
    return {
        "cell": cell.says,
        "word": cell.word(),
        "runs": cell.runs,
        "failed": cell.failed,
        "incomplete": cell.incomplete,
        "verdicts": {prop: dict(counts) for prop, counts in sorted(cell.verdicts.items())},
        "broken": dict(cell.broken),
        "limits": dict(cell.limits),
        "unexercised": cell.unexercised(),
        "opportunities": {
            prop: rows for prop, one in sorted(cell.sums.items()) if (rows := _rows(one))
        },
        "left_unknown": [asdict(one) for one in cell.left_unknown()],
    }


def _rows(one: PropertySum) -> dict[str, dict[str, RowCount]]:
    return {
        fault: {
            name: {"runs": row.runs, "count": row.count, "sentence": row.sentence}
            for name, row in fault_sum.rows.items()
        }
        for fault, fault_sum in one.faults.items()
        if fault_sum.rows
    }
