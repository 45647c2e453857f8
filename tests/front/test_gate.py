"""`holdfast gate` and `holdfast matrix` on journals that a test writes."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from holdfast.harness.campaigns.journal import Journal
from tests.front.said import holdfast
from tests.harness.test_gate import run, runs

Capture = pytest.CaptureFixture[str]
KNOWN = """
[[known]]
system = "mine"
property = "mutual-exclusion"
reason = "issue 12"
expires = {day}
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def campaign(folder: Path, verdicts: str) -> Path:
    """A campaign folder whose runs came to these verdicts."""
    with Journal(folder / "journal.jsonl") as journal:
        journal.add(runs(verdicts))
    return folder


def test_a_baseline_is_made_from_good_runs_and_never_from_bad_ones(
    capsys: Capture, tmp_path: Path
) -> None:
    good, bad = campaign(tmp_path / "good", "+++"), campaign(tmp_path / "bad", "+x+")
    said = holdfast(capsys, "gate", good)
    assert said.code == 2 and "no such baseline" in said.err
    said = holdfast(capsys, "gate", bad, "--update-baseline")
    assert said.code == 1 and "not written" in said.err
    assert not (tmp_path / "holdfast-baseline.toml").exists()
    assert holdfast(capsys, "gate", good, "--update-baseline").code == 0
    said = holdfast(capsys, "gate", good)
    assert said.code == 0
    assert said.out.splitlines()[-1].endswith("(failure rate below 63%, 95% confidence)")
    text = (tmp_path / "holdfast-baseline.toml").read_text()
    assert holdfast(capsys, "gate", bad, "--update-baseline").code == 1
    assert (tmp_path / "holdfast-baseline.toml").read_text() == text


def test_an_excuse_ends_on_its_day(capsys: Capture, tmp_path: Path) -> None:
    bad = campaign(tmp_path / "bad", "+x+")
    (tmp_path / "base.toml").write_text(
        'schema = "holdfast-baseline/1"\n' + KNOWN.format(day="2027-01-31")
    )
    words = ("gate", bad, "--baseline", "base.toml", "--today")
    assert holdfast(capsys, *words, "2027-01-31").code == 0
    said = holdfast(capsys, *words, "2027-02-01")
    assert (
        said.code == 1 and "known issue, suppression expired on 2027-01-31 (issue 12)" in said.out
    )
    assert holdfast(capsys, *words, "tomorrow").code == 2
    assert holdfast(capsys, *words[:2], "--update-baseline", *words[2:], "2027-01-31").code == 0
    assert "issue 12" in (tmp_path / "base.toml").read_text(), "the excuse stays"


def test_what_machines_read_says_the_same(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    good, bad = campaign(tmp_path / "good", "++"), campaign(tmp_path / "bad", "x?")
    holdfast(capsys, "gate", good, "--update-baseline")
    words = ("--junit", "gate.xml", "--json-file", "gate.json", "--github")
    said = holdfast(capsys, "gate", bad, *words)
    assert said.code == 1
    assert "::error title=holdfast%3A violation mutual-exclusion::mine / local" in said.out
    found = json.loads((tmp_path / "gate.json").read_text())
    assert (found["exit_code"], found["troubles"][0]["kind"]) == (1, "violation")
    suite = ET.parse(tmp_path / "gate.xml").getroot().find("testsuite")
    assert suite is not None and suite.get("failures") == "1"
    assert "gate FAILED" in (tmp_path / "summary.md").read_text()
    said = holdfast(capsys, "gate", campaign(tmp_path / "silent", "??"), *words)
    assert said.code == 3
    suite = ET.parse(tmp_path / "gate.xml").getroot().find("testsuite")
    assert suite is not None and (suite.get("failures"), suite.get("errors")) == ("0", "2")


def test_paths_may_be_folders_of_campaigns_and_nothing_else(
    capsys: Capture, tmp_path: Path
) -> None:
    campaign(tmp_path / "all" / "a", "+")
    campaign(tmp_path / "all" / "b", "x")
    found = json.loads(holdfast(capsys, "matrix", "all", "--json").out)
    assert found["runs"] == 2
    (tmp_path / "empty").mkdir()
    for command in ("matrix", "gate"):
        (tmp_path / "holdfast-baseline.toml").write_text('schema = "holdfast-baseline/1"\n')
        said = holdfast(capsys, command, "empty", "absent")
        assert said.code == 2 and len(said.err.splitlines()) == 2


def test_a_damaged_journal_is_told_and_a_rule_that_is_none(capsys: Capture, tmp_path: Path) -> None:
    damaged = campaign(tmp_path / "damaged", "+") / "journal.jsonl"
    damaged.write_text('{"event": "done", "key": 7}\n')
    said = holdfast(capsys, "matrix", "damaged")
    assert said.code == 2 and "not a result" in said.err
    said = holdfast(capsys, "gate", "damaged", "--fail-on", "p98:10%")
    assert said.code == 2 and "did you mean 'p99'?" in said.err


def test_runs_too_few_to_compare_are_inconclusive(capsys: Capture, tmp_path: Path) -> None:
    for name, count in (("before", 2), ("now", 2)):
        with Journal(tmp_path / name / "journal.jsonl") as journal:
            journal.add([run(seed, "+", p99_ms=10) for seed in range(count)])
    holdfast(capsys, "gate", "before", "--update-baseline")
    said = holdfast(capsys, "gate", "now", "--fail-on", "p99:25%")
    assert said.code == 3 and "at least 3 on each side are needed" in said.out
    assert holdfast(capsys, "gate", "now").code == 0


def test_json_is_a_flag_as_everywhere(capsys: Capture, tmp_path: Path) -> None:
    good = campaign(tmp_path / "good", "++")
    holdfast(capsys, "gate", good, "--update-baseline")
    said = holdfast(capsys, "gate", "--json", good)
    assert json.loads(said.out)["exit_code"] == said.code == 0


def test_runs_that_the_campaign_no_longer_asks_for_are_ignored_and_told(
    capsys: Capture, tmp_path: Path
) -> None:
    file, words = tmp_path / "c.toml", 'backend = "sim"\ntime = "2s"\nlease = "500ms"\n'
    matrix = '[[entry]]\nsystems = {}\nworkloads = ["critical-section"]\nnemeses = ["none"]\n'
    file.write_text(words + matrix.format('["majority", "single"]'))
    folder = tmp_path / "campaign"
    assert holdfast(capsys, "campaign", file, "--out", folder, "-j", "1").code == 1
    assert "majority" in holdfast(capsys, "gate", folder, "--update-baseline").out
    file.write_text(words + matrix.format('["single"]'))
    holdfast(capsys, "campaign", file, "--out", folder, "-j", "1")
    said = holdfast(capsys, "gate", folder, "--update-baseline")
    assert "majority" not in said.out
    assert "1 run ignored, because the campaign's file no longer asks for it" in said.err
    assert "majority / sim / critical-section / none" in said.err
    (folder / "planned.json").unlink()
    assert "majority" in holdfast(capsys, "gate", folder, "--update-baseline").out


@pytest.mark.parametrize(("runs", "few"), [("++", True), ("+" * 11, False)])
def test_a_gate_of_too_few_seeds_says_what_it_may_miss(
    capsys: Capture, tmp_path: Path, runs: str, few: bool
) -> None:
    good = campaign(tmp_path / "good", runs)
    said = holdfast(capsys, "gate", good, "--update-baseline")
    assert said.code == 0
    line = "has 2 runs, so a bug that breaks up to 78% of its runs may go unnoticed; 11 seeds bring"
    assert (line in said.out) is few
