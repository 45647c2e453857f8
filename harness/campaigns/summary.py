"""Summary of many results: counts per cell, first failure, one exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from holdfast.harness.campaigns.results import Result, failed, table, worst_code
from holdfast.harness.core.verdict import Verdict

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


class CellRow(TypedDict):
    """One cell: its state in one word, numbers of runs, and runs per property."""

    cell: str
    word: str
    runs: int
    failed: int
    incomplete: int
    verdicts: dict[str, dict[str, int]]
    broken: dict[str, int]
    limits: dict[str, int]
    unexercised: list[str]


class Summary(TypedDict):
    """A campaign as one JSON object.

    of: number of planned runs; not_run: cells without a run; results: rows of `results.table`
    """

    schema: str
    name: str
    runs: int
    of: int
    exit_code: int
    not_run: list[str]
    first_failure: Failure | None
    cells: list[CellRow]
    results: list[dict[str, Any]]


@dataclass(slots=True)
class CellTally:
    """One cell. verdicts: property -> verdict -> runs; promised: properties promised in any run.

    lacks: (property, kind of fault) that a run did not exercise -> whether no run did
    """

    says: str
    runs: int = 0
    failed: int = 0
    incomplete: int = 0
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    promised: set[str] = field(default_factory=set)
    lacks: dict[tuple[str, str], bool] = field(default_factory=dict)
    broken: Counter[str] = field(default_factory=Counter)
    limits: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        """Count one run of the cell."""
        self.runs += 1
        self.failed += failed(result)
        self.incomplete += bool(result.problems) and not failed(result)
        for prop, one in result.properties.items():
            self.verdicts.setdefault(prop, Counter())[str(one.verdict)] += 1
            if one.promised:
                self.promised.add(prop)
            for kind in one.lacks:
                self.lacks.setdefault((prop, kind), True)
            for kind, verdict in one.under.items():
                if verdict is not Verdict.UNKNOWN:
                    self.lacks[prop, kind] = False
            if one.verdict is Verdict.VIOLATED:
                (self.broken if one.promised else self.limits)[prop] += 1

    def unexercised(self) -> list[str]:
        """Promised properties that neither held nor were violated in any run; and the
        kinds of fault under which that is so, if not all of them."""
        open_ = {
            prop
            for prop in self.promised
            if not self.verdicts[prop]["HOLDS"] and not self.verdicts[prop]["VIOLATED"]
        }
        kinds = (
            f"{prop} under {kind}"
            for (prop, kind), never in self.lacks.items()
            if never and prop in self.promised - open_
        )
        return sorted((*open_, *kinds))

    def exit_code(self) -> int:
        """1 a promise was broken; 4 a run could not be executed; 3 a promise was not exercised."""
        if self.broken:
            return 1
        if self.failed:
            return 4
        return 3 if self.incomplete or self.unexercised() else 0

    def word(self) -> str:
        """The state of the cell in one word."""
        told = {1: "VIOLATED", 4: "ENVIRONMENT", 3: "UNKNOWN"}
        return told.get(self.exit_code(), "LIMIT" if self.limits else "HOLDS")


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
        "cells": [_cell_table(cell) for cell in cells],
        "results": [table(result) for result in results],
    }


def _cell_table(cell: CellTally) -> CellRow:
    return {
        "cell": cell.says,
        "word": cell.word(),
        "runs": cell.runs,
        "failed": cell.failed,
        "incomplete": cell.incomplete,
        "verdicts": {prop: dict(found) for prop, found in sorted(cell.verdicts.items())},
        "broken": dict(cell.broken),
        "limits": dict(cell.limits),
        "unexercised": cell.unexercised(),
    }
