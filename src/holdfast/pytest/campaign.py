"""Implementation of the fixture `lock_campaign`: one campaign and one gate per test."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stderr
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.campaigns.progress import carry_out, check, version
from holdfast.campaigns.result_collection import gather
from holdfast.catalogue import user_system
from holdfast.harness.campaigns import baseline as baselines
from holdfast.harness.campaigns import gate
from holdfast.harness.campaigns import spec as campaigns
from holdfast.harness.campaigns.baseline import Baseline
from holdfast.harness.campaigns.gate import Trouble
from holdfast.harness.campaigns.results import Result, without_hash
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load
from holdfast.harness.judging.stored import stored
from holdfast.harness.plans.plan import OWN
from holdfast.harness.runs.directory import RunDir
from holdfast.planning import prepare
from holdfast.pytest import NOTE
from holdfast.reports.outputs.brief import cut
from holdfast.reports.outputs.gate import by_cause, commands, headline, words
from holdfast.reports.run.story import entries
from holdfast.reports.run.story import headline as story_headline
from holdfast.reports.text.formatting import count
from holdfast.reports.text.layout import wrapped
from holdfast.scenarios import staging

PROFILES = {"quick": (2, "5s"), "standard": (5, "10s"), "thorough": (20, "30s")}
"""Runs per cell, and their duration."""
SINGULAR = {
    "system": "systems",
    "workload": "workloads",
    "nemesis": "nemeses",
    "scenario": campaigns.SCENARIOS,
    "runs": "seeds",
}
MOST_LINES = 18
"""Lines of the text of a failure: with pytest's own around it 25."""
LAST_LINES, LAST_LINES_OF_SEVERAL = 2, 4
"""Those after the problems: the campaign's page, and how many problems were left out."""
INDENT = 4
"""Columns before the further lines of a sentence."""
CAUSES = 2
"""Causes of one run that the text of a failure has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """A campaign that passed. notes: its limits and known issues."""

    results: Sequence[Result]
    notes: Sequence[Trouble]
    folder: Path


class LockCampaign:
    """The fixture. Plans are written as in a campaign file: system, nemesis, time, clients ..."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._config = request.config
        self._here = Path(request.config.invocation_params.dir)
        marker = request.node.get_closest_marker("holdfast")
        self._marked: dict[str, Json] = dict(marker.kwargs) if marker else {}
        if marker is not None and marker.args:
            self._marked["system"] = marker.args[0]

    def check(self, **plan: Json) -> Checked:
        """Run the campaign and fail the test if it has a problem.

        plan is added to the arguments of the marker `holdfast`. The text of the failure has the
        problem and the command that repeats it.
        """
        folder, results = self._carry_out({**self._marked, **plan})
        today = datetime.now(UTC).date()
        troubles = gate.judge(results, self._baseline(results), gate.rules(()), today)
        if gate.exit_code(troubles) != gate.PASSED:
            pytest.fail(_text(troubles, results, folder, self._columns()), pytrace=False)
        # With the report of the test they reach the summary, also from another process (xdist).
        told = [(NOTE, f"{one.cell}: {one.property}: {one.sentence}") for one in by_cause(troubles)]
        self._request.node.user_properties.extend(told)
        return Checked(results=results, notes=troubles, folder=folder)

    def _columns(self) -> int:
        """Columns that pytest prints to; 0 where that is no terminal: it captures the output."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if not getattr(reporter, "isatty", False) and "COLUMNS" not in os.environ:
            return 0
        return self._config.get_terminal_writer().fullwidth

    def _carry_out(self, plan: dict[str, Json]) -> tuple[Path, list[Result]]:
        reports = self._here / str(self._config.getoption("--holdfast-report-dir"))
        folder = reports / re.sub(r"[^A-Za-z0-9_.-]+", "-", self._request.node.nodeid).strip("-")
        try:
            table, where = self._table(plan), self._request.node.name
            campaign = campaigns.read(table, prepare.KNOWN, where, folder.name, staging.one_run)
            self._need_engine(campaign)
            check(campaign)
        except UsageError as error:
            pytest.fail(f"holdfast: {error}", pytrace=False)
        shutil.rmtree(folder, ignore_errors=True)
        jobs = list(campaign.jobs(version(campaign)))
        # A failure has its text; progress that was captured would be printed below it once more.
        shown = self._config.getoption("capture") == "no"
        with nullcontext() if shown else redirect_stderr(StringIO()):
            carry_out(campaign, jobs, folder, len(os.sched_getaffinity(0)), "")
        return folder, gather([folder])

    def _table(self, plan: dict[str, Json]) -> dict[str, Json]:
        """The plan as the table of a campaign file."""
        runs, time = PROFILES[self._config.getoption("--holdfast-profile")]
        table: dict[str, Any] = {"seeds": runs, "time": time}
        if plan.get("swarm") or {"scenario", "scenarios"} & plan.keys():
            # A swarm draws how long it runs, and the plan of a scenario says it.
            del table["time"]
        for name, value in plan.items():
            key = SINGULAR.get(name, name)
            listed = key in (*campaigns.AXES, campaigns.SCENARIOS) and isinstance(value, str)
            table[key] = [value] if listed else value
        if "systems" in table:
            table["systems"] = [self._placed(name) for name in table["systems"]]
        if self._config.getoption("--holdfast-runs"):
            table["seeds"] = self._config.getoption("--holdfast-runs")
        if not isinstance(table["seeds"], list):
            table.setdefault("first_seed", self._config.getoption("--holdfast-seed"))
        return table

    def _placed(self, system: str) -> str:
        """A user's lock, relative to the test or to pytest's current folder."""
        if system in catalogue.SYSTEMS or not OWN.fullmatch(system):
            return system
        file = user_system.file_of(system)
        assert file is not None
        beside = Path(self._request.path).parent / file
        if not beside.exists():
            return system
        return f"{os.path.relpath(beside, self._here)}{system.removeprefix(str(file))}"

    def _need_engine(self, campaign: campaigns.CampaignSpec) -> None:
        """Skip with the reason if there is no engine, unless one is required."""
        rows = [catalogue.BACKENDS[cell.plan.backend] for cell in campaign.cells]
        row = next((row for row in rows if row.container_engine), None)
        if row is None:
            return
        reason = load(row.precheck)()
        if reason is None:
            return
        if self._config.getoption("--holdfast-require-docker"):
            pytest.fail(f"holdfast: {reason} (--holdfast-require-docker)", pytrace=False)
        pytest.skip(f"holdfast: {reason}")

    def _baseline(self, results: Sequence[Result]) -> Baseline:
        """The rows of the baseline about the cells of this test."""
        name = self._config.getoption("--holdfast-baseline")
        if name is None:
            return Baseline()
        try:
            whole = baselines.read(self._here / name)
        except UsageError as error:
            pytest.fail(f"holdfast: {error}", pytrace=False)
        # A changed description of a lock leaves the baseline's cells behind, and is reported.
        cells = {without_hash(result.cell) for result in results}

        def of(key: tuple[str, str]) -> bool:
            return without_hash(key[0]) in cells

        return replace(
            whole,
            exercised={key: told for key, told in whole.exercised.items() if of(key)},
            measures={key: told for key, told in whole.measures.items() if of(key)},
            known=[one for one in whole.known if any(one.covers(result) for result in results)],
        )


def _text(
    troubles: Sequence[Trouble], results: Sequence[Result], folder: Path, columns: int = 0
) -> str:
    """Text of the failure: the outcome, each cause once with the run that shows it, and the other
    problems as far as there is room; then the command that repeats it.

    columns: of the terminal; 0: each sentence on one line
    """
    against = _one_reason([one for one in troubles if one.code != gate.PASSED])
    lines, causes = _lines(headline(troubles, results), columns), set[tuple[str, ...]]()
    last = LAST_LINES if len(against) == 1 else LAST_LINES_OF_SEVERAL
    runs, more = set[str](), 0
    for n, trouble in enumerate(against):
        run = trouble.result.run if trouble.result and trouble.code == gate.FAILED else ""
        if run and run in runs:
            continue
        runs.add(run)
        variants, met = _problem(trouble, run, columns)
        again = [line for line in commands(trouble) if line not in lines]
        texts = [["", *text, *again] for text in variants]
        if n:
            texts.append(["", *_lines(_in_short(trouble), columns)])
        fits = [each for each in texts if len(each) <= MOST_LINES - last - len(lines)]
        # Without the first problem the text says nothing.
        fits = fits if n else [*fits, texts[-1]]
        if not fits or (met and met <= causes):
            more += 1
            continue
        causes |= met
        lines += fits[0]
    if more:
        what = f"{more} more with these causes, or further problems: see the campaign"
        lines += ["", *_lines(what, columns)]
    return "\n".join([*lines, "", f"campaign: {folder / 'index.html'}"])


def _lines(text: str, columns: int) -> list[str]:
    return wrapped(text, columns, INDENT).splitlines()


def _in_short(trouble: Trouble) -> str:
    return f"{words(trouble.kind)}: {trouble.cell}: {trouble.property}".removesuffix(": ")


def _one_reason(troubles: Sequence[Trouble]) -> list[Trouble]:
    """The problems with what was not exercised of one lock as one: with its properties, the first
    reason and the number of others, as one command exercises them all."""
    groups: dict[tuple[object, ...], list[Trouble]] = {}
    for n, one in enumerate(troubles):
        open_ = one.kind == gate.NOT_EXERCISED
        groups.setdefault((one.cell,) if open_ else (n,), []).append(one)
    joint = []
    for first, *others in groups.values():
        more = len({one.sentence for one in others} - {first.sentence})
        each = dict.fromkeys(name for one in (first, *others) for name in one.property.split(", "))
        names = ", ".join(each)
        reasons = f"; {more} more reason{'s' if more > 1 else ''}: see the campaign" if more else ""
        command = next((one.exercise for one in (first, *others) if one.exercise), "")
        text = f"{first.sentence}{reasons}"
        joint.append(replace(first, property=names, sentence=text, exercise=command))
    return joint


def _problem(
    trouble: Trouble, run: str, columns: int
) -> tuple[list[list[str]], set[tuple[str, ...]]]:
    """One problem in lines, in variants of which the longest is the first; and what tells the
    causes of its run from those of others. run: its directory if it broke a promise, which has all
    problems of its causes."""
    prop = f" {trouble.property}:" if trouble.property else ""
    if not run:
        text = f"{words(trouble.kind)}: {trouble.cell}:{prop} {trouble.sentence}"
        return [_lines(text, columns)], set()
    verdicts = stored(RunDir(Path(run)))
    causes = [one for one in entries(verdicts) if one.cause.broken]
    met = {(trouble.cell, one.cause.kind, one.cause.cause, *one.cause.under) for one in causes}
    head = [f"{words(trouble.kind)}: {trouble.cell}", f"  {story_headline(verdicts)}"]
    whole = [(one.sentence, one.extent, one.remedy) for one in causes]
    short = [(one.brief, one.often, one.remedy) for one in causes]
    variants = []
    for most in dict.fromkeys((min(CAUSES, len(causes)), min(1, len(causes)))):
        for texts, room in ((whole, 0), (short, 0), (short, columns)):
            lines = [*head, *(line for each in texts[:most] for line in _cause(each, room))]
            if len(causes) > most:
                lines.append(f"  {count(len(causes) - most, 'more cause')}: see the report")
            shown = [row for line in lines for row in _lines(line, columns)]
            variants.append([*shown, f"  report: {run}/report.html"])
    return variants, met


def _cause(texts: Sequence[str], room: int) -> list[str]:
    """What happened, how often, and what to do; each within so many columns, 0 for any number."""
    rows = zip(("  cause: ", "  extent: ", "  do: "), texts, strict=True)
    return [f"{label}{cut(text, room - len(label)) if room else text}" for label, text in rows]
