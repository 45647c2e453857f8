"""Holds, faults, the resource's log, findings and errors of a run as data frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from holdfast.api import history_frame
from holdfast.checkers.holds.derive import attempts
from holdfast.harness.core import extras
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status

Hold = Literal["possible", "certain", "proved", "contract"]
HOLDS = ("possible", "certain", "proved", "contract")
OPEN = 1 << 62
"""An end that no recorded row bounds."""


def _pandas() -> Any:
    return extras.load("pandas", "a data frame")


def _table(rows: list[dict[str, Any]], columns: Mapping[str, str]) -> Any:
    """Rows as a frame with these columns and types, in this order, also if there is no row."""
    pandas = _pandas()
    return pandas.DataFrame(
        {
            name: pandas.array([row[name] for row in rows], dtype=kind)
            if kind != "object"
            else pandas.Series([row[name] for row in rows], dtype=object)
            for name, kind in columns.items()
        }
    )


def _seconds(case: Case, ns: int) -> float:
    return (ns - case.start_ns) / SECOND if abs(ns) < OPEN else float("inf")


def holds(case: Case, kind: str) -> Any:
    """Every hold of one kind; see `Run.holds`."""
    if kind not in HOLDS:
        raise UsageError(f"unknown kind of hold {kind!r}: expected {', '.join(HOLDS)}")
    rows = []
    for attempt in attempts(case):
        span = getattr(attempt, kind)
        if span is None:
            continue
        rows.append(
            {
                "client": case.nodes.get(attempt.process, attempt.node),
                "lock": case.history.strings[attempt.key],
                "mode": history_frame.word(Mode(attempt.mode)),
                "token": None if attempt.token == NO_TOKEN else attempt.token,
                "from": _seconds(case, span[0]),
                "to": _seconds(case, span[1]),
                "end_reason": attempt.end_why or None,
                "acquire": attempt.row,
                "end": None if attempt.end_row < 0 else attempt.end_row,
            }
        )
    return _table(
        rows,
        {
            "client": "string", "lock": "string", "mode": "string", "token": "Int64",
            "from": "float64", "to": "float64", "end_reason": "string", "acquire": "int64",
            "end": "Int64",
        },
    )  # fmt: skip


def faults(case: Case) -> Any:
    """Every fault that was due; see `Run.faults`."""
    rows = [
        {
            "id": window.id,
            "kind": window.do,
            "target": window.target,
            "nodes": list(window.nodes),
            "from": _seconds(case, window.from_ns),
            "to": _seconds(case, window.to_ns),
            "effective": window.bit,
            "reason": window.reason or None,
            "evidence": {name: value for name, value in window.evidence.items() if name != "bit"},
        }
        for window in case.windows
    ]
    return _table(
        rows,
        {
            "id": "string", "kind": "string", "target": "string", "nodes": "object",
            "from": "float64", "to": "float64", "effective": "boolean", "reason": "string",
            "evidence": "object",
        },
    )  # fmt: skip


def resource_log(case: Case) -> Any:
    """The writes that reached the resource, in its order; see `Run.resource_log`."""
    pandas = _pandas()
    at = case.history.of(Op.SERVED_WRITE)
    log = case.history.rows[at]
    # The resource's own order: by its writer and row, whatever the timestamps say.
    order = np.lexsort((log["row"], log["writer"]))
    at, log = at[order], log[order]
    columns = history_frame.Columns(case, at)
    known, before = log["token"] != NO_TOKEN, log["aux"]
    return pandas.DataFrame(
        {
            "order": np.arange(len(at)),
            "t": columns.build("invoked"),
            "client": columns.build("client"),
            "lock": columns.build("lock"),
            "token": columns.build("token"),
            "highest_token_before": columns.whole(before, before != NO_TOKEN),
            "version": columns.build("version"),
            "base_version": columns.build("base_version"),
            "accepted": log["status"] == Status.OK,
            "stale": known & (before != NO_TOKEN) & (log["token"] < before),
            "request": columns.build("request"),
            "row": at,
        }
    )


def findings(case: Case, verdicts: Mapping[str, Any]) -> Any:
    """Every finding of every property; see `Run.findings`."""
    rows = [
        {
            "property": row["property"],
            "kind": finding["kind"],
            "promised": row["promised"],
            "severity": row["severity"],
            "t": _seconds(case, finding["t_ns"]),
            "lock": finding["lock"],
            "sentence": finding["sentence"],
            "witnesses": [witness["row"] for witness in finding["witnesses"]],
        }
        for row in verdicts["verdicts"]
        for finding in row["findings"]
    ]
    return _table(
        rows,
        {
            "property": "string", "kind": "string", "promised": "boolean", "severity": "string",
            "t": "float64", "lock": "string", "sentence": "string", "witnesses": "object",
        },
    )  # fmt: skip


def properties(verdicts: Mapping[str, Any]) -> Any:
    """One row per judged property; see `Run.properties`."""
    pandas = _pandas()
    rows = verdicts["verdicts"]
    found = _table(
        [
            {
                **{name: row[name] for name in ("property", "verdict", "promised", "severity")},
                "reason": row["reason"] or None,
                "findings": len(row["findings"]),
            }
            for row in rows
        ],
        {
            "property": "string", "verdict": "string", "promised": "boolean",
            "severity": "string", "reason": "string", "findings": "int64",
        },
    )  # fmt: skip
    counts = pandas.DataFrame([dict(row["exercised"]) for row in rows], dtype="Int64")
    return pandas.concat([found, counts.add_prefix("exercised: ")], axis=1).set_index("property")


def errors(case: Case) -> Any:
    """The errors that clients received; see `Run.errors`."""
    chosen = np.flatnonzero(case.history.rows["err"] > 0)
    frame = history_frame.frame(case, chosen, ("op", "client", "status", "error", "invoked"))
    grouped = frame.groupby(["op", "client", "status", "error"], observed=True)["invoked"]
    found = grouped.agg(n="size", first="min", last="max").reset_index()
    return found.sort_values(["n", "first"], ascending=[False, True], ignore_index=True)
