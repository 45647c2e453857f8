"""Latency and throughput per system, without faults and under effective faults.

Medians over the runs of a row. Simulated runs are omitted, because their time is virtual.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from holdfast.harness.campaigns.results import CALM, RATES, Result, failed
from holdfast.harness.core.json_value import Json
from holdfast.reports.text.formatting import NONE, span

COLUMNS = {
    "ops": "calls ok/s",
    "grants": "grants/s",
    "p50": "acquire p50",
    "p99": "acquire p99",
    "failover": "longest gap",
}
"""Measures of a run with a column, and its heading."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Speed:
    """One row. faults: effective kinds, joined by "+"; measures as in `harness.campaigns`."""

    system: str
    workload: str
    backend: str
    faults: str
    runs: int
    measures: dict[str, float]

    def cells(self) -> list[str]:
        """The measures as text, in the order of COLUMNS."""
        return [_said(name, self.measures.get(name)) for name in COLUMNS]


def speeds(results: Iterable[Result], simulated: Collection[str]) -> list[Speed]:
    """Rows by system, workload, backend; the row without faults first.

    simulated   backends on virtual time, which says nothing about speed
    """
    rows: dict[tuple[str, str, str, str], list[Result]] = {}
    for result in results:
        if result.backend in simulated or failed(result) or not result.measures:
            continue
        key = (result.system, result.workload, result.backend, "+".join(result.effective))
        rows.setdefault(key, []).append(result)
    return [
        Speed(
            system=system,
            workload=workload,
            backend=backend,
            faults=faults or CALM,
            runs=len(rows[system, workload, backend, faults]),
            measures=_medians(rows[system, workload, backend, faults]),
        )
        for system, workload, backend, faults in sorted(rows)
    ]


def _medians(results: Sequence[Result]) -> dict[str, float]:
    measured = {name: [r.measures[name] for r in results if name in r.measures] for name in COLUMNS}
    return {name: median(values) for name, values in measured.items() if values}


def _said(name: str, value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,.1f}" if name in RATES else span(value)


def table(rows: Sequence[Speed]) -> list[dict[str, Json]]:
    """The rows as plain values, for JSON; spans in ns, rates per second."""
    return [
        {
            "system": row.system,
            "workload": row.workload,
            "backend": row.backend,
            "faults": row.faults,
            "runs": row.runs,
            **row.measures,
        }
        for row in rows
    ]
