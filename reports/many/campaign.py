"""The index page of a campaign: result, first failure, a row per cell and per run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.harness.campaigns.results import read
from holdfast.harness.campaigns.summary import Summary
from holdfast.harness.campaigns.trend import trends
from holdfast.harness.core.statistics import none_in
from holdfast.reports.many.page_frame import render, write
from holdfast.reports.many.trend import trend_rows
from holdfast.reports.text.formatting import count, percent, stopped
from holdfast.reports.text.least_tried import least_tried

RUNS_SHOWN = 2000
MOST_SYSTEMS = 24
STATES = ("VIOLATED", "ENVIRONMENT", "UNKNOWN", "LIMIT", "HOLDS")
"""The states of cells and runs, in the order of the page: broken ones first."""


def index(folder: Path, summary: Summary) -> Path:
    """Writes `index.html` for a campaign's summary and returns its path."""
    return write(folder / "index.html", page(summary))


def page(summary: Summary) -> str:
    """The page as a string; only runs with a directory have a link."""
    results = summary["results"]
    telling = sorted(results, key=lambda row: (STATES.index(outcome(row)), row["run"] == ""))
    found = trends((read(row, row["key"]), row["run"], 0.0) for row in results)
    place = {trend.cell: n for n, trend in enumerate(found)}
    systems = list(dict.fromkeys(system_of(cell["cell"]) for cell in summary["cells"]))
    return render(
        "campaign.html",
        {
            "summary": summary,
            "cells": sorted(
                summary["cells"],
                key=lambda cell: (STATES.index(cell["word"]), place.get(cell["cell"], 0)),
            ),
            "trend_rows": trend_rows(found),
            "systems": systems[:MOST_SYSTEMS],
            "system_of": system_of,
            "word": headline(summary),
            "bound": bound(summary),
            "runs": telling[:RUNS_SHOWN],
            "more": max(0, len(results) - RUNS_SHOWN),
            "outcome": outcome,
            "words": STATES,
            "number_of": lambda name: systems.index(name) + 1 if name in systems else 0,
        },
    )


def system_of(cell: str) -> str:
    """The system of a cell: its name up to the backend."""
    return cell.partition(" / ")[0]


def headline(summary: Summary) -> str:
    """The state of the campaign in one word, like that of a cell."""
    told = {0: "HOLDS", 1: "VIOLATED", 3: "UNKNOWN", 4: "ENVIRONMENT"}
    return told[summary["exit_code"]]


def outcome(row: Mapping[str, Any]) -> str:
    """The state of one run in one word: a documented limit is not a broken promise."""
    if row["exit_code"] != 0:
        return {1: "VIOLATED", 3: "UNKNOWN"}.get(row["exit_code"], "ENVIRONMENT")
    violated = any(one["verdict"] == "VIOLATED" for one in row["properties"].values())
    return "LIMIT" if violated else "HOLDS"


def bound(summary: Summary) -> str:
    """The result in one sentence, with its confidence."""
    rows = summary["results"]
    failed = [row for row in rows if row["exit_code"] == 4]
    if failed and len(failed) == len(rows):
        why = next((row["problems"][0] for row in failed if row["problems"]), "no reason recorded")
        return (
            f"None of {count(len(rows), 'run')} could be executed, so no promise"
            f" was tested: {stopped(why, 300)}"
        )
    broken = sum(row["exit_code"] == 1 for row in rows)
    made, of = summary["runs"], summary["of"]
    left = f" {of - made} of {of} runs were not started." if made < of else ""
    left += f" {len(failed)} of {made} runs could not be executed." if failed else ""
    runs = made - len(failed)
    if summary["not_run"]:
        left += f" Not run: {', '.join(summary['not_run'])}."
    if broken or not runs:
        return f"{broken} of {runs} runs broke a promise.{left}"
    rate = f"rate below {percent(none_in(runs))}, 95% confidence"
    least = summary["least_tried"]
    if least is not None and least["runs"] < runs:
        rate += least_tried(least["property"], least["fault"], least["runs"])
    return f"0 of {runs} runs broke a promise ({rate}).{left}"
