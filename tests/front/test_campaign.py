"""Campaigns: every run once, whatever is killed, and the same files wherever they are made."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path

import pytest

from tests.front import campaigns
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
SMALL = """
clients = 3
time = "3s"
lease = "500ms"
[[entry]]
systems = ["majority"]
backend = "sim"
nemeses = ["kill:every=1s,for=200ms"]
seeds = {seeds}
[[entry]]
systems = ["single"]
swarm = true
seeds = 2
"""
"""Runs of which some break their promise (their directories are kept) and some do not."""


def written(folder: Path, seeds: int = 6) -> Path:
    file = folder / "small.toml"
    file.write_text(SMALL.format(seeds=seeds))
    return file


def in_process(
    capsys: Capture, folder: Path, monkeypatch: pytest.MonkeyPatch, *words: object
) -> dict[str, object]:
    monkeypatch.chdir(folder)
    said = holdfast(capsys, "campaign", *words, "-j", 1, "--json")
    found: dict[str, object] = json.loads(said.out)
    assert said.code == found["exit_code"]
    return found


def test_killed_in_the_middle_it_goes_on_and_ends_as_if_nothing_had_been(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path)
    journal = tmp_path / "killed" / "journal.jsonl"
    before = campaigns.kill_after(tmp_path, journal, 2, file, "--out", "killed", "-j", 1)
    assert 2 <= before < 8
    again = in_process(capsys, tmp_path, monkeypatch, file, "--out", "killed")
    keys = [row["key"] for row in campaigns.lines(journal)]
    assert len(keys) == len(set(keys)) == 8, "none lost, none twice"
    straight = in_process(capsys, tmp_path, monkeypatch, file, "--out", "straight")
    assert again == straight
    assert campaigns.files(tmp_path / "killed" / "runs") == campaigns.files(
        tmp_path / "straight" / "runs"
    )
    assert not any((tmp_path / "killed" / ".attempts").glob("*/manifest.json"))


@pytest.mark.slow
def test_two_dask_workers_come_to_the_same_files(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, seeds=3)
    with campaigns.dask(tmp_path, workers=2) as address:
        words = (file, "--out", "far", "--scheduler", address)
        code, far = campaigns.carry_out(tmp_path, *words)
    near = in_process(capsys, tmp_path, monkeypatch, file, "--out", "near")
    assert (code, far) == (1, near)
    kept = campaigns.files(tmp_path / "far" / "runs")
    assert len(kept) > 10
    assert kept == campaigns.files(tmp_path / "near" / "runs")


@pytest.mark.slow
def test_more_seeds_are_added_to_what_is_done_and_a_budget_leaves_some_out(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, seeds=2)
    file.write_text(file.read_text() + "[budget]\nruns = 3\n")
    first = in_process(capsys, tmp_path, monkeypatch, file, "--out", "out")
    assert (first["runs"], first["of"], first["not_run"]) == (3, 4, [])
    journal = tmp_path / "out" / "journal.jsonl"
    kept = [row["key"] for row in campaigns.lines(journal)]
    more = in_process(capsys, tmp_path, monkeypatch, written(tmp_path, seeds=3), "--out", "out")
    assert (more["runs"], more["of"]) == (5, 5)
    assert [row["key"] for row in campaigns.lines(journal)][:3] == kept
    (tmp_path / "foreign").mkdir()
    refused = holdfast(capsys, "campaign", file, "--out", "foreign", "--fresh")
    assert refused.code == 2 and "so --fresh does not remove it" in refused.err
    fresh = in_process(
        capsys, tmp_path, monkeypatch, written(tmp_path, seeds=1), "--out", "out", "--fresh"
    )
    assert fresh["runs"] == 3
    assert (tmp_path / "out.1" / "journal.jsonl").exists()


@pytest.mark.slow
def test_a_decided_cell_gets_no_more_runs_and_the_rest_is_run_to_the_end(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "stops.toml"
    file.write_text(
        'backend = "sim"\ntime = "1s"\nlease = "200ms"\nclients = 2\nseeds = 60\n'
        '[[entry]]\nsystems = ["single"]\nstop_below = "9.6%"\n'
        '[[entry]]\nsystems = ["majority"]\n'
        '[[entry]]\nsystems = ["single"]\nresource = "unfenced"\nnemeses = ["pause"]\n'
        'time = "3s"\nstop_below = "9.6%"\nseeds = 35\n'
    )
    found = in_process(capsys, tmp_path, monkeypatch, str(file), "--out", "out")
    rows = campaigns.lines(tmp_path / "out" / "journal.jsonl")
    runs = Counter(str(row["system"]) for row in rows)
    assert runs["majority"] == 60
    violated = {str(row["key"]) for row in rows if str(row["system"]) == "single unfenced"}
    kept = {path.name for path in (tmp_path / "out" / "runs").iterdir()} & violated
    assert 1 <= len(kept) <= 8 and len(violated) >= 30, "of each violated property, a few runs"
    assert 30 <= runs["single"] < 60, "30 runs without a violation: the rate is below 9.6 %"
    assert found["runs"] == found["of"] == len(rows), "what is decided is not missing"
    again = in_process(capsys, tmp_path, monkeypatch, str(file), "--out", "out")
    assert again == found and len(campaigns.lines(tmp_path / "out" / "journal.jsonl")) == len(rows)


def test_the_first_failure_is_told_with_its_command_and_the_index_links_its_report(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = holdfast(capsys, "campaign", written(tmp_path, seeds=3), "--out", "out", "-j", 1)
    assert said.code == 1
    assert "first failure: majority / sim / critical-section / kill" in said.err
    assert "again: holdfast run --system majority --backend sim" in said.out
    summary = json.loads((tmp_path / "out" / "campaign.json").read_text())
    failure = summary["first_failure"]
    assert (tmp_path / "out" / failure["run"] / "report.html").exists()
    page = (tmp_path / "out" / "index.html").read_text()
    assert f'href="{failure["run"]}/report.html"' in page
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")


def test_the_first_failure_is_made_small_on_demand(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = holdfast(capsys, "campaign", written(tmp_path), "-j", "1", "--shrink", "30s")
    assert said.code == 1
    small = tmp_path / ".holdfast" / "campaigns" / "small" / "first-failure.toml"
    again = holdfast(capsys, "replay", small)
    assert again.code == 1 and "token-order" in again.out


STAGED = """
backend = "sim"
time = "3s"
[[entry]]
scenarios = ["redlock-restart"]
seeds = [7]
[[entry]]
systems = ["majority"]
scenarios = ["owner-crash"]
clients = 5
locks = 2
options = {quorum = 2}
"""


def test_scenarios_run_their_own_plans_and_their_command_shows_the_same_again(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "staged.toml"
    file.write_text(STAGED)
    found = in_process(capsys, tmp_path, monkeypatch, file, "--out", "out")
    rows = found["results"]
    assert isinstance(rows, list)
    first, second = (row["command"] for row in rows)
    assert first == "holdfast scenario redlock-restart --backend sim --seed 7"
    assert second == (
        "holdfast scenario owner-crash --backend sim --system majority --clients 5 --locks 2"
        " --set quorum=2 --seed 1"
    )
    assert [bool(row["run"]) for row in rows] == [False, True], "who keeps promises keeps no files"
    for row in rows:
        plan = holdfast(capsys, *shlex.split(row["command"])[1:], "--dry-run").out
        if row["run"]:
            assert (tmp_path / "out" / row["run"] / "plan.toml").read_text() == plan
        assert "must = " in plan and plan.count("[[fault]]") >= 2
        assert row["scenario"] in row["key"]
    matrix = holdfast(capsys, "matrix", "out", "--json")
    faults = json.loads(matrix.out)["faults"]
    assert faults == ["scenario owner-crash", "scenario redlock-restart"]


def test_a_scenario_is_not_run_where_its_file_is_contradicted(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "bad.toml"
    file.write_text(
        'backend = "sim"\nsystems = ["reference"]\nworkloads = ["try-lock"]\n'
        'scenarios = ["owner-paus", "owner-pause", "redlock-restart", "sweep-pause"]'
    )
    said = holdfast(capsys, "campaign", file)
    assert said.code == 2
    for part in (
        "unknown scenario 'owner-paus'; did you mean 'owner-pause'?",
        "scenario owner-pause has a fixed workload, critical-section, not try-lock",
        "scenario sweep-pause is a sweep of many runs",
    ):
        assert part in said.err
    assert not (tmp_path / ".holdfast").exists()


def test_what_cannot_be_prepared_is_told_before_anything_is_run(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "bad.toml"
    file.write_text('systems = ["redis", "none"]\nbackend = "sim"\noptions = {colour = "red"}')
    said = holdfast(capsys, "campaign", file)
    assert said.code == 2
    assert "redis / sim / critical-section / none: redis: unknown option colour" in said.err
    assert "none: unknown option: colour" in said.err
    assert not (tmp_path / ".holdfast").exists()
    assert holdfast(capsys, "campaign", tmp_path / "absent.toml").code == 2
    said = holdfast(capsys, "campaign", written(tmp_path), "--scheduler", "tcp://x:1", "-j", 2)
    assert said.code == 2 and "has its own workers" in said.err
    said = holdfast(capsys, "campaign", written(tmp_path), "--dry-run")
    assert len(said.out.splitlines()) == 8


def test_a_scheduler_that_does_not_answer_is_an_environment_that_failed(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = holdfast(capsys, "campaign", written(tmp_path), "--scheduler", "nowhere://1")
    assert said.code == 4
    assert "connection failed" in said.err and "Traceback" not in said.err


def test_every_run_can_be_told_to_last_longer_than_the_file_says(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "two.toml"
    file.write_text(
        'systems = ["single"]\nbackend = "sim"\ntime = "2s"\nnemeses = ["none", "kill"]'
    )
    found = in_process(capsys, tmp_path, monkeypatch, file, "--time", "9s")
    assert str(found["results"]).count("--time 9s") == found["runs"] == 2
    refused = holdfast(capsys, "campaign", file, "--time", "soon")
    assert refused.code == 2 and "invalid duration 'soon'" in refused.err
    swarm = holdfast(capsys, "campaign", written(tmp_path), "--time", "9s")
    assert swarm.code == 2 and "a swarm samples the duration" in swarm.err
