"""The registry: a run is noted by its living driver, and a pid alone proves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.harness.runs import registry


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the tests' notes away from the user's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_a_noted_run_is_alive_until_it_is_forgotten(tmp_path: Path) -> None:
    path = registry.note("run-1", run_dir=tmp_path, label="holdfast-1")
    assert path == tmp_path / "holdfast" / "registry" / "run-1.json"
    assert set(json.loads(path.read_text())) == {"pid", "started", "run_dir", "label", "namespace"}
    (run,) = registry.noted()
    assert run.alive
    assert (run.run_id, run.pid, run.label) == ("run-1", os.getpid(), "holdfast-1")
    registry.forget("run-1")
    registry.forget("run-1")
    assert registry.noted() == []


def test_the_same_pid_with_another_start_is_another_process(tmp_path: Path) -> None:
    registry.note("run-1", run_dir=tmp_path, label="x")
    (run,) = registry.noted()
    pid, begun, namespace = registry.mark().split(":")
    assert not registry.abandoned("x", registry.mark(), [])
    assert registry.abandoned("x", f"{pid}:{int(begun) - 1}:{namespace}", [])
    assert not registry.abandoned("x", f"{pid}:{int(begun) - 1}:{namespace}", [run])


def test_an_ended_process_that_nobody_waited_for_does_not_run() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", ""], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert registry.started(process.pid) == -1
    assert registry.started(os.getpid()) > 0


@pytest.mark.parametrize("content", ["", "[]", '{"pid": "x"}', '{"pid": 1}'])
def test_a_broken_note_is_passed_over(tmp_path: Path, content: str) -> None:
    registry.note("good", run_dir=tmp_path, label="x")
    (registry.folder() / "bad.json").write_text(content)
    assert [run.run_id for run in registry.noted()] == ["good"]


@pytest.mark.parametrize("mark", ["nonsense", "1:2", "a:b:c"])
def test_a_mark_that_cannot_be_read_proves_nothing(mark: str) -> None:
    assert not registry.abandoned("x", mark, [])
