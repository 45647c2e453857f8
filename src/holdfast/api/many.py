"""Many runs at once: campaigns, and the runs of a folder, as data frames."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.campaigns.result_collection import gather
from holdfast.catalogue import VIRTUAL_TIME
from holdfast.harness.campaigns.results import MEASURES, RATES, Result
from holdfast.harness.core import extras
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.runs.directory import RUNS
from holdfast.reports.many import matrix

if TYPE_CHECKING:
    from pandas import DataFrame


class Campaign:
    """The results of a campaign, a folder of campaigns or a folder of runs.

    Raises UsageError where the path has none. Frames need pandas (extra `frame`).
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self.results: list[Result] = gather([self.path])

    def runs(self) -> DataFrame:
        """One row per run: system, backend, workload, nemesis, scenario, seed, verdict, exit_code,
        effective (fault kinds), and a column per measure: p50, p90, p99, failover in seconds,
        grants and ops per second."""
        return _runs(self.results)

    def frame(self) -> DataFrame:
        """One row per run and property: the run's columns, then property, verdict, promised,
        severity, findings (their number), kind and sentence of the first, reason, counts (what the
        run exercised, by name)."""
        pandas = extras.load("pandas", "a data frame")
        rows = [
            {
                "run": n,
                "property": prop,
                "property_verdict": str(one.verdict),
                "promised": one.promised,
                "exercised": one.exercised,
                "severity": one.severity,
                "findings": one.findings,
                "kind": one.kind or None,
                "sentence": one.sentence or None,
                "reason": one.reason or None,
                "counts": dict(one.counts),
            }
            for n, result in enumerate(self.results)
            for prop, one in result.properties.items()
        ]
        names = ["run", "property", "property_verdict", "promised", "exercised", "severity",
                 "findings", "kind", "sentence", "reason", "counts"]  # fmt: skip
        table = pandas.DataFrame(rows, columns=names)
        return table.merge(_runs(self.results), left_on="run", right_index=True).drop(columns="run")

    def matrix(self) -> DataFrame:
        """System x property (rows) by fault kinds (columns): "+ n" held in n runs, "o n" held in
        too few runs (n), "x k/n" violated in k of n, NA not exercised; as `holdfast matrix` shows
        it."""
        pandas = extras.load("pandas", "a data frame")
        cells = [
            {
                "system": cell["system"],
                "property": cell["property"],
                "fault": cell["fault"],
                "cell": _cell(cell),
            }
            for cell in matrix.table(matrix.matrix(self.results, VIRTUAL_TIME))["cells"]
        ]
        long_form = pandas.DataFrame(cells, columns=["system", "property", "fault", "cell"])
        return long_form.pivot(index=["system", "property"], columns="fault", values="cell")

    def __repr__(self) -> str:
        broken = sum(bool(result.broken()) for result in self.results)
        return f"<Campaign {self.path}: {len(self.results)} runs, {broken} with a broken promise>"


def runs(folder: str | PathLike[str] = RUNS) -> DataFrame:
    """Every run under a folder, one row each, the oldest first: `Campaign.runs`."""
    return Campaign(folder).runs()


def _runs(results: list[Result]) -> DataFrame:
    pandas = extras.load("pandas", "a data frame")
    rows = [
        {
            "key": one.key,
            "system": one.system,
            "backend": one.backend,
            "workload": one.workload,
            "nemesis": one.nemesis,
            "scenario": one.scenario or None,
            "seed": one.seed,
            "verdict": one.verdict,
            "exit_code": one.exit_code,
            "effective": "+".join(one.effective) or None,
            "path": one.run or None,
            **{
                name: one.measures[name] / (1 if name in RATES else SECOND)
                if name in one.measures
                else float("nan")
                for name in MEASURES
            },
        }
        for one in results
    ]
    if not rows:
        raise UsageError("no runs to show")
    return pandas.DataFrame(rows)


def _cell(cell: Any) -> str | None:
    held, violated = cell["held"], cell["violated"]
    if violated:
        return f"x {violated}/{held + violated}"
    return f"{'+' if cell['state'] == 'held' else 'o'} {held}" if held else None
