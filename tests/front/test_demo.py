"""The tour shows a stale write accepted, the same refused, and two owners at once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.commands import demo_command
from holdfast.commands.demo_command import PARTS, Part
from holdfast.engine import runner
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import Severity, Verdict
from holdfast.harness.verdicts.judged import Judged, Judgement, Shown, read
from holdfast.planning import prepare
from tests.front.said import holdfast
from tests.reports.specimens import clean

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.plan.system + part.plan.resource)
def test_its_plans_are_complete_and_their_faults_follow_one_another(part: Part) -> None:
    assert prepare.complete(part.plan).faults == part.plan.faults
    for fault, after in pairwise(part.plan.faults):
        assert fault.at_ns + fault.for_ns + SECOND < after.at_ns
    last = part.plan.faults[-1]
    assert last.at_ns + last.for_ns + SECOND < part.plan.time_ns


def test_only_the_resource_differs_between_the_first_two() -> None:
    assert replace(demo_command.FENCED, resource="unfenced") == demo_command.UNFENCED


@pytest.mark.parametrize("part", PARTS[:2], ids=["unfenced", "fenced"])
def test_the_simulated_parts_come_out_as_expected_under_other_seeds(
    part: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in (7, 8, 9):
        prepared = prepare.prepared(replace(part.plan, seed=seed))
        verdicts = runner.carry_out(prepared, tmp_path, "again", quiet=True)
        assert demo_command.row_of(part, verdicts).verdict == part.expected
        said = demo_command.outcome(part, verdicts)
        if part.expected is Verdict.HOLDS:
            assert "the resource rejected all " in said and "stale requests." in said
        else:
            assert "accepted a write" in said and "the newer owner" in said


def verdicts_of(part: Part, verdict: str) -> Judged:
    found = Shown(kind="double-grant", sentence="two owners", lock="db", t_ns=0)
    row = Judgement(
        property=part.prop,
        verdict=Verdict(verdict),
        promised=True,
        severity=Severity.CRITICAL,
        reason="no stale request",
        findings=(found,) if verdict == "VIOLATED" else (),
        exercised={"stale requests refused": 8},
    )
    return replace(read(clean()), verdicts=(row,), report="report.html")


@pytest.mark.parametrize(("third", "code"), [("VIOLATED", 0), ("UNKNOWN", 3), ("HOLDS", 3)])
def test_it_succeeds_only_if_each_part_came_out_as_expected(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, third: str, code: int
) -> None:
    words = iter(("VIOLATED", "HOLDS", third))
    parts = iter(PARTS)
    monkeypatch.setattr(
        demo_command, "carry_out", lambda *_, **__: verdicts_of(next(parts), next(words))
    )
    said = holdfast(capsys, "demo", "--seed", "7")
    assert said.code == code
    assert "simulator: no-stale-write VIOLATED: two owners." in said.out
    assert "rejected all 8 stale requests" in said.out and "report 3: report.html" in said.out
