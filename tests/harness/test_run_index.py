"""The index of runs: every run under a folder with its state, and how far a running one is."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from benchmarks.run_directory import Shape, write

from holdfast.engine import judging
from holdfast.harness.campaigns.run_index import RunIndex, progress
from holdfast.harness.core.clock import SECOND, now_ns
from holdfast.harness.runs import registry
from holdfast.harness.runs.directory import RunDir
from tests.front.aborted import wait_for

SAYS = [sys.executable, "-P", "-c", 'import sys; print(\'{"ops": 7, "of": "%s"}\' % sys.argv[1])']


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the tests' notes away from the user's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def made(folder: Path, seed: int, at_s: int) -> RunDir:
    """A small recorded run that began at a time."""
    run = write(Shape(ops=50, clients=2, seed=seed), folder)
    os.utime(run.manifest, (at_s, at_s))
    return run


def test_runs_have_their_state_and_the_newest_comes_first(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    old, broken = made(root, 1, 1000), made(root, 2, 3000)
    judged, going = made(root / "night" / "runs", 3, 2000), made(root, 4, 2500)
    judging.judge_run(judged, ())
    registry.note("going", run_dir=going.path, label="x")
    broken.manifest.write_text("{")
    os.utime(broken.manifest, (3000, 3000))
    entries = RunIndex(root, SAYS).entries()
    assert [(one.id, one.state) for one in entries] == [
        (broken.path.name, "unreadable"),
        (going.path.name, "running"),
        (f"night/runs/{judged.path.name}", "judged"),
        (old.path.name, "unjudged"),
    ]
    states = {one.state: one for one in entries}
    assert states["unreadable"].problem.startswith("UsageError") and not states["unjudged"].problem
    result = states["judged"].result
    assert result is not None and result.grants == 21
    assert states["judged"].verdict == result.verdict
    assert states["running"].verdict == "running" and states["running"].manifest is not None


def test_the_kinds_of_faults_of_a_run_are_those_of_its_plan(tmp_path: Path) -> None:
    run = made(tmp_path / "runs", 1, 1000)
    table = json.loads(run.manifest.read_text())
    fault = {"id": "f1", "target": "n1", "at_ns": 1, "for_ns": 1, "params": {}}
    table["plan"]["faults"] = [{**fault, "do": do} for do in ("pause", "kill", "pause")]
    run.manifest.write_text(json.dumps(table))
    (entry,) = RunIndex(tmp_path / "runs", SAYS).entries()
    assert entry.nemesis == "kill+pause"
    run.manifest.write_text("{}")
    (unread,) = RunIndex(tmp_path / "runs", SAYS).entries()
    assert (unread.nemesis, unread.state, unread.manifest) == ("none", "unreadable", None)


def test_what_is_read_once_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    run = made(tmp_path / "runs", 1, 1000)
    shelf = RunIndex(tmp_path / "runs", SAYS)
    (first,), (second,) = shelf.entries(), shelf.entries()
    assert first is second
    judging.judge_run(run, ())
    (third,) = shelf.entries()
    assert third.state == "judged"
    assert shelf.entry(third.id) is third and shelf.entry("../state") is None


def test_links_are_not_followed_and_deeper_folders_are_no_runs(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    run = made(tmp_path / "elsewhere", 1, 1000)
    root.mkdir()
    (root / "link").symlink_to(run.path)
    made(root / "a" / "b" / "c", 2, 1000)
    assert RunIndex(root, SAYS).entries() == []
    made(root / "a" / "b", 3, 1000)
    assert len(RunIndex(root, SAYS).entries()) == 1


def marks(run: RunDir, **at_ns: int) -> None:
    run.times.write_text(
        "".join(json.dumps({"mark": mark, "t_ns": t_ns}) + "\n" for mark, t_ns in at_ns.items())
    )


def test_progress_is_the_stage_the_time_and_the_last_event_of_each_fault(tmp_path: Path) -> None:
    run = made(tmp_path / "runs", 1, 1000)
    of_ns = run.read_manifest().plan.time_ns
    marks(run)
    assert progress(run) == {"stage": "deploying", "done_ns": 0, "of_ns": of_ns, "faults": []}
    marks(run, start=now_ns() - of_ns // 2)
    done, done_ns = progress(run), progress(run)["done_ns"]
    assert done["stage"] == "running"
    assert isinstance(done_ns, int) and of_ns // 2 <= done_ns <= of_ns
    marks(run, start=now_ns() - SECOND - of_ns, stop=now_ns())
    rows = [
        {"id": "f1", "event": event, "do": "pause", "target": "holder"}
        for event in ("planned", "injected")
    ]
    run.faults.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert progress(run) == {
        "stage": "settling",
        "done_ns": of_ns,
        "of_ns": of_ns,
        "faults": [{"id": "f1", "do": "pause", "target": "holder", "event": "injected"}],
    }
    run.manifest.write_text("{")
    assert progress(run) == {}


def test_a_live_verdict_comes_from_another_process_and_a_failed_one_keeps_the_last(
    tmp_path: Path,
) -> None:
    run = made(tmp_path / "runs", 1, 1000)
    shelf = RunIndex(tmp_path / "runs", SAYS)
    (entry,) = shelf.entries()
    wait_for(lambda: shelf.live(entry).get("ops") == 7, 30, "no live verdict")
    live = shelf.live(entry)
    assert live["of"] == str(run.path) and live["of_ns"] == run.read_manifest().plan.time_ns
    failing = RunIndex(tmp_path / "runs", [sys.executable, "-P", "-c", "raise SystemExit(1)"])
    assert "ops" not in failing.live(entry)
