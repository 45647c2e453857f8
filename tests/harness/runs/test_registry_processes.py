"""Marks and notes of drivers that are real processes: alive, exited, of a strange name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.harness.runs import registry
from holdfast.harness.runs.registry import DRIVER_VARIABLE, RUN_VARIABLE, Noted

WAITS = "import sys; print(1, flush=True); sys.stdin.read()"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the tests' notes away from the user's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def driver() -> Iterator[subprocess.Popen[str]]:
    """A process that lives until its standard input is closed."""
    argv = [sys.executable, "-S", "-c", WAITS]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdout.readline() == "1\n"
        yield process
        process.kill()


def mark_of(pid: int, begun: int) -> str:
    namespace = registry.mark().split(":")[2]
    return f"{pid}:{begun}:{namespace}"


def note_of(pid: int, begun: int, label: str = "x") -> Noted:
    return Noted(run_id="run-1", pid=pid, started=begun, run_dir="/tmp", label=label)


def test_a_driver_is_alive_until_its_process_ends(driver: subprocess.Popen[str]) -> None:
    begun = registry.started(driver.pid)
    mark, note = mark_of(driver.pid, begun), note_of(driver.pid, begun)
    assert begun >= registry.started(os.getpid()) and note.alive
    assert not registry.abandoned("x", mark, []) and not registry.abandoned("x", "", [note])
    driver.kill()
    driver.wait()
    assert registry.started(driver.pid) == -1 and not note.alive
    assert registry.abandoned("x", mark, []) and registry.abandoned("x", "", [note])


def test_what_has_no_mark_is_abandoned_only_if_a_dead_driver_noted_its_label(
    driver: subprocess.Popen[str],
) -> None:
    alive = note_of(driver.pid, registry.started(driver.pid))
    dead = replace(alive, started=1)
    assert not registry.abandoned("x", "", [])
    assert not registry.abandoned("x", "", [replace(dead, label="y")])
    assert registry.abandoned("x", "", [dead, replace(alive, label="y")])
    assert not registry.abandoned("x", "", [dead, alive]), "one that lives is enough"
    assert not registry.abandoned("x", mark_of(driver.pid, 1), [alive])


def test_a_mark_of_another_pid_namespace_counts_as_alive(driver: subprocess.Popen[str]) -> None:
    here = mark_of(driver.pid, 1)
    pid, begun, namespace = here.split(":")
    assert registry.abandoned("x", here, [])
    assert not registry.abandoned("x", f"{pid}:{begun}:{int(namespace) + 1}", [])


def test_the_name_of_a_program_may_look_like_its_state(tmp_path: Path) -> None:
    """Field 2 of /proc/PID/stat is the name, which may have blanks and brackets."""
    odd = tmp_path / "a) Z 1 (b"
    odd.symlink_to("/bin/cat")
    with subprocess.Popen([odd], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"x")
        process.stdin.flush()
        assert process.stdout.read(1) == b"x", "it runs, under its own name"
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        assert registry.started(process.pid) == int(fields[19]) > 0
        process.stdin.close()


def test_processes_of_a_run_carry_its_label_and_the_mark_of_their_driver() -> None:
    code = (
        "import os; from holdfast.harness.runs import registry;"
        f"print(registry.abandoned('other', os.environ[{DRIVER_VARIABLE!r}], []),"
        f" os.environ[{RUN_VARIABLE!r}])"
    )
    said = subprocess.run(
        [sys.executable, "-P", "-c", code], env={**os.environ, **registry.environ("label-1")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "False label-1\n"


def test_notes_are_under_the_home_folder_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    place = tmp_path / ".local" / "state" / "holdfast" / "registry"
    assert registry.folder() == place and registry.noted() == []
    for name in ("run-2", "run-10", "run-1"):
        registry.note(name, run_dir=tmp_path / name, label=name)
    assert [(run.run_id, run.run_dir) for run in registry.noted()] == [
        (name, str(tmp_path / name)) for name in ("run-1", "run-10", "run-2")
    ]
    assert sorted(path.name for path in place.iterdir()) == [
        "run-1.json", "run-10.json", "run-2.json",
    ]  # fmt: skip


def test_a_note_is_replaced_by_that_of_the_next_driver_of_the_run(tmp_path: Path) -> None:
    path = registry.note("run-1", run_dir=tmp_path, label="x")
    old = json.loads(path.read_text())
    path.write_text(json.dumps({**old, "pid": 1, "started": -7}))
    (dead,) = registry.noted()
    assert not dead.alive
    registry.note("run-1", run_dir=tmp_path, label="x")
    (again,) = registry.noted()
    assert again.alive and json.loads(path.read_text()) == old
    assert [one.name for one in registry.folder().iterdir()] == ["run-1.json"], "and no draft"
