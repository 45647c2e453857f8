"""The index page of a campaign: the answer, the heat map, each failure once, all runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.harness.campaigns.results import Result, read
from holdfast.harness.campaigns.summary import Summary
from holdfast.harness.campaigns.trend import trends
from holdfast.harness.core.statistics import none_in
from holdfast.reports.many import heat_map, worst_first
from holdfast.reports.many.matrix import matrix
from holdfast.reports.many.page_frame import render, write
from holdfast.reports.many.trend import trend_rows
from holdfast.reports.many.worst_first import Failure
from holdfast.reports.text.formatting import count, listed, percent, plain, stopped
from holdfast.reports.text.least_tried import least_tried

RUNS_SHOWN = 2000
MOST_SYSTEMS = 24
MOST_NAMED = 3
"""Systems that a headline names."""
MOST_FAILURES, FAILURES_SHOWN, UNKNOWN_SHOWN = 200, 5, 2
"""Entries of the list of failures; those of them, and causes of what is unknown, not folded."""
STATES = ("VIOLATED", "ENVIRONMENT", "UNKNOWN", "LIMIT", "HOLDS")
"""The states of cells and runs, in the order of the page: broken ones first."""


def index(folder: Path, summary: Summary, simulated: Collection[str] = ()) -> Path:
    """Writes `index.html` for a campaign's summary and returns its path."""
    return write(folder / "index.html", page(summary, simulated))


def page(summary: Summary, simulated: Collection[str] = ()) -> str:
    """The page as a string; only runs with a directory have a link.

    simulated   backends on virtual time: see `matrix`
    """
    rows = summary["results"]
    results = [read(row, row["key"]) for row in rows]
    telling = sorted(rows, key=lambda row: (STATES.index(outcome(row)), row["run"] == ""))
    cell_trends = trends((one, one.run, 0.0) for one in results)
    place = {trend.cell: n for n, trend in enumerate(cell_trends)}
    systems = list(dict.fromkeys(system_of(cell["cell"]) for cell in summary["cells"]))
    map_of = matrix(results, simulated)
    failures = worst_first.failures(results)
    return render(
        "campaign.html",
        {
            "summary": summary,
            "cells": sorted(
                summary["cells"],
                key=lambda cell: (STATES.index(cell["word"]), place.get(cell["cell"], 0)),
            ),
            "trend_rows": trend_rows(cell_trends),
            "systems": systems[:MOST_SYSTEMS],
            "system_of": system_of,
            "word": headline(summary),
            "answer": answer(summary, failures),
            "bound": bound(summary),
            "views": heat_map.views(map_of, report_link),
            "map_systems": list(map_of.systems),
            "system_link": lambda name: f"matrix.html#system-{map_of.systems.index(name) + 1}",
            "map_words": heat_map.WORDS,
            "map_key": heat_map.KEY,
            "map_counted": heat_map.counted(map_of),
            "failures": failures[:MOST_FAILURES],
            "more_failures": max(0, len(failures) - MOST_FAILURES),
            "unknown": worst_first.left_unknown(results),
            "failures_shown": max(FAILURES_SHOWN, sum(one.promised for one in failures[:20])),
            "unknown_shown": UNKNOWN_SHOWN,
            "flaky": sum(trend.flaky for trend in cell_trends),
            "open": open_questions(summary),
            "report_link": report_link,
            "runs": telling[:RUNS_SHOWN],
            "more": max(0, len(rows) - RUNS_SHOWN),
            "outcome": outcome,
            "words": STATES,
            "number_of": lambda name: systems.index(name) + 1 if name in systems else 0,
        },
    )


def report_link(result: Result) -> str:
    """The link to a run's report from the page of its campaign, "" if it has no directory."""
    return f"{quote(result.run)}/report.html" if result.run else ""


def open_questions(summary: Summary) -> int:
    """Number of promises, per cell and kind of fault, that no run exercised."""
    return sum(len(cell["unexercised"]) for cell in summary["cells"])


def answer(summary: Summary, failures: Sequence[Failure]) -> str:
    """The headline: which locks broke a promise, of how many."""
    systems = {system_of(cell["cell"]) for cell in summary["cells"]}
    broken = list(dict.fromkeys(one.system for one in failures if one.promised))
    if broken:
        named = listed(plain(name, 60) for name in broken[:MOST_NAMED])
        more = f" and {len(broken) - MOST_NAMED} more" if len(broken) > MOST_NAMED else ""
        of = count(len(systems), "lock")
        return f"{len(broken)} of {of} broke a promise: {named}{more}."
    if not summary["runs"] or summary["exit_code"] == 4:
        return "No answer: not all runs could be executed."
    if summary["exit_code"] == 3:
        return f"No answer yet: {count(open_questions(summary), 'question')} not tested."
    return f"No lock broke a promise in {count(summary['runs'], 'run')}."


def system_of(cell: str) -> str:
    """The system of a cell: its name up to the backend."""
    return cell.partition(" / ")[0]


def headline(summary: Summary) -> str:
    """The state of the campaign in one word, like that of a cell."""
    words = {0: "HOLDS", 1: "VIOLATED", 3: "UNKNOWN", 4: "ENVIRONMENT"}
    return words[summary["exit_code"]]


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
