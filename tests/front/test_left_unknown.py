"""What is unknown has one set of words: Python, terminal, campaigns, gates and tests."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.campaigns.result_collection import gather
from holdfast.harness.campaigns import gate
from holdfast.harness.campaigns.baseline import Baseline
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import (
    PlanChange,
    PropertyVerdict,
    Seen,
    Severity,
    Under,
    Verdict,
)
from holdfast.harness.judging.opportunities import remedy
from holdfast.harness.plans.plan import Plan
from holdfast.harness.verdicts.judged import Judged, Judgement, UnderKind
from holdfast.harness.verdicts.left_unknown import LeftUnknown, of_run, once
from holdfast.pytest.campaign import _text
from holdfast.reports.outputs import gate as gate_output
from holdfast.reports.run.story import story
from tests.front.said import holdfast


def test_a_run_says_each_cause_once_with_one_command_in_python_and_on_the_terminal() -> None:
    seen = 0
    for seed in range(6):
        run = hf.simulate(
            system="reference", nemesis="kill", time="6s", seed=seed, options={"late_pct": "0"}
        )
        causes = [one.cause for one in run.unknown]
        assert len(causes) == len(set(causes))
        text = " ".join(story(run._judged))
        assert all(one.sentence in text for one in run.unknown)
        commands = {one.command for one in run.unknown if one.promised}
        assert commands == {run.judgement["remedy"]}
        for one in run.unknown:
            seen += bool(one.rows)
            assert bool(one.rows) == bool(one.wanted)
            if one.rows:
                assert one.faults == ("kill",) and any(char.isdigit() for char in one.cause)
                counted = run.opportunities[one.properties[0]]["kill"]
                (row,) = (each for each in counted if each.row == one.rows[0])
                assert row.count == 0 and row.nearest == one.cause
    assert seen >= 3


def test_a_command_that_was_run_and_exercised_nothing_is_not_printed_again() -> None:
    plan = Plan(
        system="reference", workload="renewal", time_ns=100 * SECOND, lease_ns=SECOND, seed=3,
        nemeses=(("kill", {"target": "one"}),),
    )  # fmt: skip
    seen = Seen(change=PlanChange(nemesis="kill", target="one"), nearest="0")
    under = {"kill": Under(verdict=Verdict.UNKNOWN, seen={"x": seen})}
    verdict = PropertyVerdict(property="ownership", verdict=Verdict.UNKNOWN, reason="", under=under)
    row = Judgement(
        property="ownership", verdict=hf.Verdict.UNKNOWN, promised=True, severity=Severity.HIGH
    )
    first = remedy(plan, [row], [verdict])
    assert "--time 160s" in first and "--seed 4" in first
    asked = replace(plan, workload="critical-section", nemeses=())
    assert "--time 100s" in remedy(asked, [row], [verdict]), "not run yet"


def part(prop: str, fault: str, cause: str, command: str = "") -> LeftUnknown:
    return LeftUnknown(properties=(prop,), faults=(fault,), cause=cause, command=command)


def test_one_cause_of_several_properties_and_faults_is_one_entry() -> None:
    (one,) = once(part(prop, fault, "idle") for prop in "ab" for fault in "kp")
    assert (one.properties, one.faults) == (("a", "b"), ("k", "p"))
    assert one.sentence == "A and b under k and p: not tested. Idle."
    # Never more than is unknown: a under k and b under p are two.
    assert len(once([part("a", "k", "idle"), part("b", "p", "idle")])) == 2
    assert len(once([part("a", "k", "idle"), part("a", "k", "late")])) == 2


def test_a_missing_need_of_the_whole_property_is_not_told_per_fault() -> None:
    under = {
        kind: UnderKind(verdict=hf.Verdict.UNKNOWN, asked=True, promised=True, reason="no wait")
        for kind in ("kill", "pause")
    }
    row = Judgement(
        property="ownership", verdict=hf.Verdict.UNKNOWN, promised=True, severity=Severity.HIGH,
        reason="no wait; no kill took effect", under=under,
    )  # fmt: skip
    run = Judged(
        run="r", system="s", backend="sim", workload="w", seed=1, verdict=hf.Verdict.UNKNOWN,
        exit_code=3, command="c", start_ns=0, stop_ns=0, end_ns=0, verdicts=(row,), remedy="go",
    )  # fmt: skip
    (one,) = of_run(run)
    assert (one.faults, one.cause, one.command) == ((), "no wait; no kill took effect", "go")


CAMPAIGN = """
systems = ["reference"]
backend = "sim"
nemeses = ["kill"]
clients = 5
time = "6s"
# Owners that are late would exercise all in one run.
options = {{ late_pct = 0 }}
seeds = {seeds}
{more}
"""


def carried_out(
    capsys: pytest.CaptureFixture[str], folder: Path, more: str, seeds: str = "1\nfirst_seed = 4"
) -> dict[str, Any]:
    file = folder / f"c{abs(hash((more, seeds)))}.toml"
    file.write_text(CAMPAIGN.format(seeds=seeds, more=more))
    said = holdfast(capsys, "campaign", file, "-j", 1, "--json", "--out", folder / file.stem)
    found: dict[str, Any] = json.loads(said.out)
    found["folder"] = str(folder / file.stem)
    return found


def lacks_rows(found: dict[str, Any]) -> bool:
    return any(one["rows"] for one in left_unknown(found))


def left_unknown(found: dict[str, Any]) -> list[dict[str, Any]]:
    (cell,) = found["cells"]
    parts: list[dict[str, Any]] = cell["left_unknown"]
    return parts


def test_a_cell_goes_on_until_its_promises_have_their_opportunities(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    still = carried_out(capsys, tmp_path, "more_seeds = 0")
    assert still["runs"] == still["of"] == 1 and lacks_rows(still)
    on = carried_out(capsys, tmp_path, "more_seeds = 20")
    assert 1 < int(str(on["runs"])) < 21 and on["runs"] == on["of"] and not lacks_rows(on)
    assert carried_out(capsys, tmp_path, "more_seeds = 20") == on, "nothing is left to be done"
    # By default as many as it has, beside a list of seeds none, and never more than the budget.
    assert int(str(carried_out(capsys, tmp_path, "")["runs"])) == 2
    assert carried_out(capsys, tmp_path, "", "[4]")["runs"] == 1
    budget = carried_out(capsys, tmp_path, "more_seeds = 20\n[budget]\nruns = 2")
    assert budget["runs"] == 2


def test_gate_junit_and_pytest_say_what_the_campaign_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = carried_out(capsys, tmp_path, "more_seeds = 0")
    results = gather([Path(str(found["folder"]))])
    troubles = gate.judge(results, Baseline(), gate.NO_RULES, date(2026, 11, 26))
    junit = gate_output.junit(tmp_path / "gate.xml", troubles, results).read_text()
    texts = [
        gate_output.terminal(troubles, results),
        gate_output.step_summary(troubles, results).replace("\\", ""),
        junit.replace("&apos;", "'"),
    ]
    assert left_unknown(found)
    for one in left_unknown(found):
        assert all(one["cause"] in text for text in texts)
        assert all(one["command"] in text for text in texts)
    # pytest has room for one of the causes, and counts the others.
    failure = _text(troubles, results, tmp_path)
    causes = [one["cause"] for one in left_unknown(found) if one["cause"] in failure]
    assert len(causes) == 1 and all(one["command"] in failure for one in left_unknown(found))
    assert f"{len(left_unknown(found)) - 1} more reasons: see the campaign" in failure
    shown = holdfast(
        capsys, "campaign", next(tmp_path.glob("*.toml")), "-j", 1, "-v", "--out", "again"
    )
    words = " ".join(shown.out.split())  # lines are broken where they are full
    assert all(one["cause"] in words.lower() for one in left_unknown(found))
    assert "to exercise it: holdfast run" in words


def test_an_invalid_number_of_further_seeds_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "c.toml"
    file.write_text(CAMPAIGN.format(seeds=1, more="more_seeds = -1"))
    said = holdfast(capsys, "campaign", file)
    assert said.code == 2 and "invalid more_seeds = -1: expected a number >= 0" in said.err
