"""Holds, faults, the resource's log, findings and errors of a run as data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from holdfast.api import history_frame
from holdfast.checkers.facts import admissions
from holdfast.checkers.facts.admissions import stale_writes
from holdfast.checkers.holds.derive import Attempt, attempts
from holdfast.harness.core import extras
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status
from holdfast.harness.verdicts.judged import Judged, Judgement, Shown

if TYPE_CHECKING:
    from pandas import DataFrame

Hold = Literal["possible", "certain", "proved", "contract"]
HOLDS = ("possible", "certain", "proved", "contract")
OPEN = 1 << 62
"""An end that no recorded row bounds."""


def _pandas() -> ModuleType:
    return extras.load("pandas", "a data frame")


Row = TypeVar("Row")
Columns = Mapping[str, tuple[str, Callable[[Row], object]]]
"""Name of a column -> its type, and how its value is taken from a row."""


def _table(rows: Iterable[Row], columns: Columns[Row]) -> DataFrame:
    """Rows as a frame with these columns, in this order, also if there is no row."""
    pandas, rows = _pandas(), list(rows)
    made = {}
    for name, (kind, value) in columns.items():
        values = [value(row) for row in rows]
        as_array = kind != "object"
        made[name] = (
            pandas.array(values, dtype=kind) if as_array else pandas.Series(values, dtype=object)
        )
    return pandas.DataFrame(made)


def _seconds(case: Case, ns: int) -> float:
    return (ns - case.start_ns) / SECOND if abs(ns) < OPEN else float("inf")


def holds(case: Case, kind: str) -> DataFrame:
    """Every hold of one kind; see `Run.holds`."""
    if kind not in HOLDS:
        raise UsageError(f"unknown kind of hold {kind!r}: expected {', '.join(HOLDS)}")
    spans = ((attempt, getattr(attempt, kind)) for attempt in attempts(case))
    strings, nodes = case.history.strings, case.nodes
    columns: Columns[tuple[Attempt, tuple[int, int]]] = {
        "client": ("string", lambda row: nodes.get(row[0].process, row[0].node)),
        "lock": ("string", lambda row: strings[row[0].key]),
        "mode": ("string", lambda row: history_frame.word(Mode(row[0].mode))),
        "token": ("Int64", lambda row: None if row[0].token == NO_TOKEN else row[0].token),
        "from": ("float64", lambda row: _seconds(case, row[1][0])),
        "to": ("float64", lambda row: _seconds(case, row[1][1])),
        "end_reason": ("string", lambda row: row[0].end_why or None),
        "acquire": ("int64", lambda row: row[0].row),
        "end": ("Int64", lambda row: None if row[0].end_row < 0 else row[0].end_row),
    }
    return _table(((attempt, span) for attempt, span in spans if span is not None), columns)


def faults(case: Case) -> DataFrame:
    """Every fault that was due; see `Run.faults`."""
    columns: Columns[Window] = {
        "id": ("string", lambda window: window.id),
        "kind": ("string", lambda window: window.do),
        "target": ("string", lambda window: window.target),
        "nodes": ("object", lambda window: list(window.nodes)),
        "requested": (
            "float64",
            lambda window: (
                _seconds(case, window.requested_ns) if window.requested_ns >= 0 else float("nan")
            ),
        ),
        "from": ("float64", lambda window: _seconds(case, window.from_ns)),
        "to": ("float64", lambda window: _seconds(case, window.to_ns)),
        "effective": ("boolean", lambda window: window.effective),
        "reason": ("string", lambda window: window.reason or None),
        "evidence": ("object", lambda window: _without(window.evidence, "effective")),
    }
    return _table(case.windows, columns)


def _without(table: Mapping[str, Json], name: str) -> dict[str, Json]:
    return {key: value for key, value in table.items() if key != name}


def resource_log(case: Case) -> DataFrame:
    """The writes that reached the resource, in its order; see `Run.resource_log`."""
    pandas = _pandas()
    at = case.history.of(Op.SERVED_WRITE)
    log = case.history.rows[at]
    # The resource's own order: by its writer and row, whatever the timestamps say.
    order = np.lexsort((log["row"], log["writer"]))
    at, log = at[order], log[order]
    columns = history_frame.FrameColumns(case, at)
    # Accepted: what the checker calls stale; rejected: those of older owners.
    stale = [request.row for request, *_ in stale_writes(case)]
    stale += admissions.stale_refused(case).tolist()
    return pandas.DataFrame(
        {
            "order": np.arange(len(at)),
            "t": columns.build("invoked"),
            "client": columns.build("client"),
            "lock": columns.build("lock"),
            "token": columns.build("token"),
            "highest_token_before": columns.build("highest_token_before"),
            "version": columns.build("version"),
            "base_version": columns.build("base_version"),
            "accepted": log["status"] == Status.OK,
            "stale": np.isin(at, np.array(stale, np.int64)),
            "request": columns.build("request"),
            "row": at,
        }
    )


def findings(case: Case, judged: Judged) -> DataFrame:
    """Every finding of every property; see `Run.findings`."""
    rows = ((row, finding) for row in judged.verdicts for finding in row.findings)
    columns: Columns[tuple[Judgement, Shown]] = {
        "property": ("string", lambda row: row[0].property),
        "kind": ("string", lambda row: row[1].kind),
        "promised": ("boolean", lambda row: row[0].promised),
        "severity": ("string", lambda row: str(row[0].severity)),
        "t": ("float64", lambda row: _seconds(case, row[1].t_ns)),
        "lock": ("string", lambda row: row[1].lock),
        "sentence": ("string", lambda row: row[1].sentence),
        "witnesses": ("object", lambda row: [witness.row for witness in row[1].witnesses]),
    }
    return _table(rows, columns)


def properties(judged: Judged) -> DataFrame:
    """One row per judged property; see `Run.properties`."""
    pandas = _pandas()
    rows = judged.verdicts
    columns: Columns[Judgement] = {
        "property": ("string", lambda row: row.property),
        "state": ("string", lambda row: str(row.outcome())),
        "verdict": ("string", lambda row: str(row.verdict)),
        "promised": ("boolean", lambda row: row.promised),
        "severity": ("string", lambda row: str(row.severity)),
        "reason": ("string", lambda row: row.reason or None),
        "findings": ("int64", lambda row: len(row.findings)),
    }
    judged_rows = _table(rows, columns)
    counts = pandas.DataFrame([dict(row.exercised) for row in rows], dtype="Int64")
    return pandas.concat([judged_rows, counts.add_prefix("exercised: ")], axis=1).set_index(
        "property"
    )


def errors(case: Case) -> DataFrame:
    """The errors that clients received; see `Run.errors`."""
    rows = case.history.rows
    # The text of a holder query that was answered is the hold's.
    text = (rows["f"] == Op.HOLDER) & (rows["status"] == Status.OK)
    chosen = np.flatnonzero((rows["err"] > 0) & ~text)
    frame = history_frame.frame(case, chosen, ("op", "client", "status", "error", "invoked"))
    grouped = frame.groupby(["op", "client", "status", "error"], observed=True)["invoked"]
    counted = grouped.agg(n="size", first="min", last="max").reset_index()
    return counted.sort_values(["n", "first"], ascending=[False, True], ignore_index=True)
