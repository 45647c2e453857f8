"""Pages of `holdfast serve`: list of runs, one run, two runs compared; without scripts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from holdfast.harness.campaigns.results import MEASURES
from holdfast.harness.campaigns.run_families import Family, by_command, families, independent
from holdfast.harness.campaigns.run_index import Entry
from holdfast.harness.campaigns.trend import trends
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.runs import files
from holdfast.reports.many import heat_map
from holdfast.reports.many.matrix import matrix
from holdfast.reports.many.page_frame import render
from holdfast.reports.many.trend import trend_rows
from holdfast.reports.many.two_runs import measure
from holdfast.reports.text.formatting import NONE, plain, seconds
from holdfast.reports.text.templates import DIGEST

FILTERS = ("system", "workload", "nemesis", "property", "verdict")
"""Filters of the list; each is the name of a form field."""
SEARCH = ("q", "seed")
"""Fields of the list with text: words that a run has all of, and its seed."""
MOST_VIEWS = 100
"""Maps of which a page shows one: of each property, those of a user's checkers too."""
PER_PAGE = 100
ATTEMPTS_SHOWN = 200
MAP_SYSTEMS = 8
"""Systems of the map above the list; all of them have a page of their own."""
HEAD = 2000
REPORT = "report.html"
"""The first HEAD bytes of a report contain its policy."""
STATES = {
    "HOLDS": "holds",
    "VIOLATED": "broken",
    "LIMIT": "limit",
    "UNKNOWN": "unknown",
    "ENVIRONMENT": "failed",
    "running": "unknown",
    "unjudged": "unknown",
    "unreadable": "failed",
}


def runs(
    entries: Sequence[Entry],
    wanted: Mapping[str, str],
    page: int = 1,
    simulated: Collection[str] = (),
) -> str:
    """The list, filtered ("": no filter), a page of it; the choices come from all entries.

    Attempts are below the run that they belong to, which is listed if any of them is wanted.
    """
    choices: dict[str, set[str]] = {name: set() for name in FILTERS}
    for entry in entries:
        for name, values in _values(entry).items():
            choices[name] |= values
    every = families(entries)
    shown = [one for one in every if any(_matches(entry, wanted) for entry in one.all)]
    pages = max(1, -(-len(shown) // PER_PAGE))
    page = min(max(page, 1), pages)
    asked = {name: value for name, value in wanted.items() if value}
    return render(
        "runs.html",
        {
            "families": [_family(one) for one in shown[(page - 1) * PER_PAGE : page * PER_PAGE]],
            "found": len(shown),
            "of": len(every),
            "runs": len(entries),
            "page": page,
            "pages": pages,
            "link_to": lambda number: "/?" + urlencode({**asked, "page": number}),
            "choices": {name: sorted(values) for name, values in choices.items()},
            "wanted": wanted,
            **(_map(entries, simulated, MAP_SYSTEMS) if page == 1 and not asked else NO_MAP),
        },
    )


def heat(entries: Sequence[Entry], simulated: Collection[str] = ()) -> str:
    """The heat map of all judged runs."""
    return render("map.html", _map(entries, simulated, len(entries)))


def one_map_at_a_time() -> str:
    """Rules that show the map of the chosen property alone: as many as there may be properties."""
    hidden = (f"main:has(#view-{n}:not(:checked)) .view-{n}" for n in range(1, MOST_VIEWS + 1))
    return f"{', '.join(hidden)} {{ display: none; }}"


NO_MAP: dict[str, object] = {"views": [], "map_more": 0}


def _map(entries: Sequence[Entry], simulated: Collection[str], most: int) -> dict[str, object]:
    """What a page needs to show the map of the worst systems, `most` of them."""
    results = [entry.result for entry in independent(entries) if entry.result is not None]
    grid = matrix(results, simulated)
    views = heat_map.views(grid, lambda result: f"/run?id={quote(result.run, safe='')}")
    if not results or not views[0].rows:
        return NO_MAP
    return {
        "views": [heat_map.first(view, most) for view in views],
        "map_more": max(0, len(views[0].rows) - most),
        "map_words": heat_map.WORDS,
        "map_key": heat_map.KEY,
        "map_counted": heat_map.counted(grid),
        "system_link": lambda name: "/?" + urlencode({"q": name}),
    }


def _matches(entry: Entry, wanted: Mapping[str, str]) -> bool:
    values = _values(entry)
    if any(want and want not in values[name] for name, want in wanted.items() if name in FILTERS):
        return False
    seed = wanted.get("seed", "").strip()
    if seed and seed != (str(entry.manifest.plan.seed) if entry.manifest else ""):
        return False
    text = _text(entry)
    return all(word in text for word in wanted.get("q", "").casefold().split())


def _text(entry: Entry) -> str:
    """What words are searched in: names, not sentences."""
    plan, result = entry.manifest and entry.manifest.plan, entry.result
    parts = [entry.id, entry.origin.name, entry.origin.of, entry.nemesis, _word(entry)]
    parts += [plan.system, plan.backend, plan.workload, plan.scenario] if plan else []
    parts += [f"seed {plan.seed}"] if plan else []
    parts += [result.system] if result else []
    return " ".join(parts).casefold()


def _family(one: Family) -> dict[str, Json]:
    """A row of the list: its run, and the attempts below it."""
    attempts = [_row(entry) for entry in one.attempts[:ATTEMPTS_SHOWN]]
    words = Counter(_word(entry) for entry in one.attempts)
    made = ", ".join(f"{n} by {plain(name, 20)}" for name, n in by_command(one.attempts).items())
    return {
        "head": _row(one.head) if one.head else None,
        "title": one.title,
        "attempts": attempts,
        "more": len(one.attempts) - len(attempts),
        "number": len(one.attempts),
        "made": made,
        "words": ", ".join(f"{words[word]} {word}" for word in STATES if words[word]),
    }


def trend(entries: Sequence[Entry]) -> str:
    """The trend of each cell over the judged runs, the oldest run first."""
    chosen = reversed(independent(entries))
    judged = [entry for entry in chosen if entry.result is not None]
    rows = trend_rows(
        trends((one.result, one.id, one.started) for one in judged if one.result is not None)
    )
    return render("trend.html", {"rows": rows, "runs": len(judged)})


def run(entry: Entry, live: Mapping[str, Any], logs: Sequence[str]) -> str:
    """One run: its verdict, or its present state while it runs."""
    result = entry.result
    plan = entry.manifest.plan if entry.manifest else None
    done = live.get("done_ns", 0) / max(live.get("of_ns", 1), 1)
    return render(
        "run.html",
        {
            "run": _row(entry),
            "properties": list(result.properties.items()) if result else [],
            "measures": [
                (MEASURES[name], measure(name, value))
                for name, value in (result.measures if result else {}).items()
            ],
            "command": result.command
            if result
            else entry.manifest.command
            if entry.manifest
            else "",
            "facts": [
                (name, plain(getattr(plan, name), 80))
                for name in (
                    "system",
                    "backend",
                    "workload",
                    "resource",
                    "seed",
                    "clients",
                    "locks",
                )
                if plan
            ],
            "live": live,
            "percent": min(round(100 * done), 100),
            "at": lambda ns: seconds(ns),
            "logs": [(name, quote(name)) for name in logs[:200]],
            "problems": [*(result.problems if result else ()), *filter(None, [entry.problem])],
        },
    )


def compare(left: Entry, right: Entry) -> str:
    """Two judged runs side by side; differences are marked."""
    assert left.result is not None
    assert right.result is not None
    a, b = left.result, right.result
    facts = ("system", "backend", "workload", "nemesis", "seed", "exit_code", "command")
    properties = list(dict.fromkeys([*a.properties, *b.properties]))
    measures = [name for name in MEASURES if name in a.measures or name in b.measures]
    return render(
        "compare.html",
        {
            "runs": [_row(left), _row(right)],
            "facts": [
                (name.replace("_", " "), str(getattr(a, name)), str(getattr(b, name)))
                for name in facts
            ],
            "properties": [
                (name, a.properties.get(name), b.properties.get(name)) for name in properties
            ],
            "measures": [
                (
                    MEASURES[name],
                    measure(name, a.measures.get(name)),
                    measure(name, b.measures.get(name)),
                    _ratio(a.measures.get(name), b.measures.get(name)),
                )
                for name in measures
            ],
        },
    )


def problem(sentence: str) -> str:
    """An error page."""
    return render("problem.html", {"sentence": sentence})


def _values(entry: Entry) -> dict[str, set[str]]:
    """Values by which the entry is filtered; properties: those violated in the run."""
    properties = entry.result.properties if entry.result else {}
    return {
        "system": {plain(entry.manifest.plan.system if entry.manifest else "?", 80)},
        "property": {
            plain(name, 80) for name, one in properties.items() if one.verdict is Verdict.VIOLATED
        },
        "verdict": {_word(entry)},
        "workload": {plain(entry.manifest.plan.workload if entry.manifest else "?", 80)},
        "nemesis": {plain(kind, 80) for kind in entry.nemesis.split("+")},
    }


def _word(entry: Entry) -> str:
    """The state of a run in one word: a documented limit is not a broken promise."""
    result = entry.result
    if result is None:
        return entry.state
    if result.exit_code != 0:
        return {1: "VIOLATED", 3: "UNKNOWN"}.get(result.exit_code, "ENVIRONMENT")
    limit = any(one.verdict is Verdict.VIOLATED for one in result.properties.values())
    return "LIMIT" if limit else "HOLDS"


def _row(entry: Entry) -> dict[str, Json]:
    plan, report = entry.manifest and entry.manifest.plan, files.is_file(entry.dir.path, REPORT)
    properties = entry.result.properties if entry.result else {}
    return {
        "id": entry.id,
        "link": quote(entry.id, safe=""),
        "word": _word(entry),
        "tone": STATES[_word(entry)],
        "name": entry.origin.name,
        "of": entry.origin.of,
        "by": entry.origin.by,
        "state": entry.state,
        "started": f"{datetime.fromtimestamp(entry.started, UTC):%Y-%m-%d %H:%M:%S} UTC",
        "nemesis": entry.nemesis,
        "report": report,
        "older": report and not _ours(entry),
        "violated": [name for name, one in properties.items() if one.verdict is Verdict.VIOLATED],
        "system": plan.system if plan else "?",
        "backend": plan.backend if plan else "?",
        "workload": plan.workload if plan else "?",
        "seed": plan.seed if plan else "?",
    }


def _ours(entry: Entry) -> bool:
    """Whether the script of a report is the one that this version allows."""
    try:
        with files.opened(entry.dir.path, REPORT) as file:
            return DIGEST.encode() in os.read(file, HEAD)
    except OSError:
        return False


def _ratio(a: float | None, b: float | None) -> str:
    """ "3.2 times" the left value; "1/690" where the right one is a small part of it."""
    if not a or b is None:
        return NONE
    return f"{b / a:.2f} times" if b / a >= 0.01 or not b else f"1/{a / b:,.0f}"
