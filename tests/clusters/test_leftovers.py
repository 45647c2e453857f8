"""Leftovers: found only where a run's driver is surely gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import docker
import pytest

from holdfast.clusters.backends import leftovers, memory_groups
from holdfast.clusters.backends.docker import engine
from holdfast.clusters.backends.docker.leftovers import OfEngine
from holdfast.clusters.backends.ssh.leftovers import OfHosts
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.runs import registry
from holdfast.harness.runs.registry import Leftover
from tests.clusters.driving import eventually

SOURCES = (OfEngine(), OfHosts())
NAMESPACE = registry.mark().rpartition(":")[2]


@pytest.fixture(autouse=True)
def own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the tests' notes away from the user's, and the engine out of it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")


@pytest.fixture
def stray(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose environment is the fixture's parameter."""
    program = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
    with subprocess.Popen(program, env=request.param) as process:
        eventually(lambda: b"signal" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
        yield process
        process.kill()


def pids() -> set[str]:
    """Ids of the processes that are found."""
    return {found.id for found in leftovers.find(sources=SOURCES) if found.kind == "process"}


LEFT = {"HOLDFAST_RUN": "stray", "HOLDFAST_DRIVER": f"{2**22 + 1}:1:{NAMESPACE}"}


@pytest.mark.parametrize("stray", [LEFT], indirect=True)
def test_a_process_of_a_dead_driver_is_found_and_ended(stray: subprocess.Popen[bytes]) -> None:
    (found,) = [found for found in leftovers.find(sources=SOURCES) if found.id == str(stray.pid)]
    assert (found.kind, found.label) == ("process", "stray")
    leftovers.clean(found)
    assert stray.wait(5) == -9
    leftovers.clean(found)


@pytest.mark.parametrize("stray", [registry.environ("living")], indirect=True)
def test_a_process_of_a_living_driver_is_not(stray: subprocess.Popen[bytes]) -> None:
    assert str(stray.pid) not in pids()


@pytest.mark.parametrize("stray", [LEFT | {"HOLDFAST_DRIVER": "7:1:1"}], indirect=True)
def test_a_driver_in_another_pid_namespace_counts_as_living(
    stray: subprocess.Popen[bytes],
) -> None:
    assert str(stray.pid) not in pids()


@pytest.mark.parametrize("stray", [{"HOLDFAST_RUN": "unmarked"}], indirect=True)
def test_without_a_mark_the_registry_decides(
    stray: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    assert str(stray.pid) not in pids()
    path = registry.note("r1", run_dir=tmp_path, label="unmarked")
    assert str(stray.pid) not in pids()
    path.write_text(path.read_text().replace(f'"pid": {os.getpid()}', f'"pid": {2**22 + 1}'))
    assert str(stray.pid) in pids()


@pytest.mark.parametrize("stray", [LEFT], indirect=True)
def test_a_pid_that_names_a_stranger_by_now_is_left_alone(stray: subprocess.Popen[bytes]) -> None:
    other = Leftover(kind="process", id=str(stray.pid), label="stray", text="", started=1)
    leftovers.clean(other)
    assert stray.poll() is None


def of_engine() -> list[Leftover]:
    """What is left in a container engine. Tests beside this one leave processes and control groups
    for a moment."""
    kinds = ("container", "network")
    return [found for found in leftovers.find(sources=SOURCES) if found.kind in kinds]


def test_no_engine_means_no_containers_and_no_error() -> None:
    assert "no engine at" in (engine.precheck() or "")
    assert of_engine() == []


def test_an_engine_that_does_not_listen_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "no-engine.sock").touch()
    assert engine.precheck() is None
    assert of_engine() == []


def test_a_remote_engine_is_refused_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert "processes of this host" in (engine.precheck() or "")


class Keeping:
    """An engine that will not let a network go; a real one miscounts too rarely to wait for it."""

    def __init__(self, *, containers: dict[str, object]) -> None:
        self.api = self
        self._containers = containers

    def remove_network(self, network: str) -> None:
        raise docker.errors.APIError(f"network {network} has active endpoints")

    def inspect_network(self, network: str) -> dict[str, object]:
        return {"Containers": self._containers}


def test_a_network_that_the_engine_miscounts_is_told_from_one_in_use() -> None:
    found = {"Id": "4711", "Name": "some-run"}
    with pytest.raises(engine.Miscounted, match=r"network some-run .* restart dockerd"):
        engine.remove_network(cast("engine.ContainerEngine", Keeping(containers={})), found)
    with pytest.raises(docker.errors.APIError, match="4711 has active endpoints"):
        engine.remove_network(cast("engine.ContainerEngine", Keeping(containers={"c1": {}})), found)


def test_what_appears_a_moment_after_the_death_of_a_driver_is_cleaned_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine goes on making what it was asked for: nothing, one thing, nothing, nothing."""
    late = Leftover(kind="container", id="1", label="run", text="late")
    looks = [[], [late], [], [], [late]]
    cleaned: list[Leftover] = []
    monkeypatch.setattr(leftovers, "BETWEEN_S", 0)
    monkeypatch.setattr(leftovers, "find", lambda label, sources: looks.pop(0))
    monkeypatch.setattr(leftovers, "clean", lambda one, sources: cleaned.append(one))
    assert leftovers.clean_run("run", SOURCES) == []
    assert cleaned == [late]
    assert looks == [[late]]


def test_an_engine_that_does_not_answer_is_no_clean_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*args: object) -> None:
        raise EnvironmentFailed("docker: no engine answers")

    monkeypatch.setattr(engine, "precheck", lambda: None)
    monkeypatch.setattr(engine, "in_plain_words", silent)
    assert leftovers.clean_run("run", SOURCES) == ["docker: no engine answers"]
    assert leftovers.find(sources=SOURCES) is not None


def killed_run(run_dir: Path, label: str, **changes: object) -> Path:
    """The note of a run whose driver is gone."""
    path = registry.note(label, run_dir=run_dir, label=label)
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": 2**22 + 1, **changes}))
    return path


@pytest.mark.parametrize("stray", [LEFT], indirect=True)
def test_a_sweep_removes_what_a_noted_run_left_and_its_note(
    stray: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    note = killed_run(tmp_path, "stray")
    removed, problems = leftovers.sweep(SOURCES)
    assert ([one.id for one in removed], problems) == ([str(stray.pid)], [])
    assert stray.wait(5) == -9
    assert not note.exists()


@pytest.mark.parametrize("stray", [LEFT], indirect=True)
def test_a_sweep_keeps_to_runs_with_a_note_of_this_user(stray: subprocess.Popen[bytes]) -> None:
    assert leftovers.sweep(SOURCES) == ([], [])
    assert stray.poll() is None


@pytest.mark.parametrize("stray", [registry.environ("living")], indirect=True)
def test_a_sweep_touches_nothing_of_a_living_run_or_of_another_pid_namespace(
    stray: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    notes = [
        registry.note("living", run_dir=tmp_path, label="living"),
        killed_run(tmp_path, "elsewhere", namespace=7),
        killed_run(tmp_path, "older", namespace=0),
    ]
    assert leftovers.sweep(SOURCES) == ([], [])
    assert stray.poll() is None
    assert all(note.exists() for note in notes)


def test_a_note_is_kept_where_the_engine_did_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its containers may be there."""

    def silent(*args: object) -> None:
        raise EnvironmentFailed("docker: no engine answers")

    monkeypatch.setattr(engine, "precheck", lambda: None)
    monkeypatch.setattr(engine, "in_plain_words", silent)
    note = killed_run(tmp_path, "contained")
    assert leftovers.sweep(SOURCES) == ([], [])
    assert note.exists()


def test_a_refusal_is_told_and_keeps_the_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(leftover: Leftover, sources: object) -> None:
        raise EnvironmentFailed("busy")

    left = Leftover(kind="network", id="1", label="kept", text="kept")
    monkeypatch.setattr(OfEngine, "find", lambda self, notes, within_s: [left])
    monkeypatch.setattr(leftovers, "clean", refuse)
    note = killed_run(tmp_path, "kept")
    assert leftovers.sweep(SOURCES) == ([], ["network kept of run kept: busy"])
    assert note.exists()


@pytest.mark.parametrize("living", [True, False])
@pytest.mark.parametrize("stray", [registry.environ("owned")], indirect=True)
def test_a_group_is_left_if_its_agent_and_its_processes_are_gone(
    stray: subprocess.Popen[bytes], tmp_path: Path, living: bool
) -> None:
    """Told without a note, by the pid in its name."""
    path = tmp_path / f"{memory_groups.PREFIX}owned-{stray.pid if living else 2**22 + 1}-1"
    path.mkdir()
    (path / "cgroup.procs").write_text("")
    assert memory_groups.unowned("owned", path) is not living
    (path / "cgroup.procs").write_text(f"{os.getpid()}\n")
    assert not memory_groups.unowned("owned", path)


def test_control_groups_that_go_while_they_are_looked_for_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of containers do, which have nothing to do with us."""
    (tmp_path / "cgroup.procs").touch()
    ours = tmp_path / "kept" / f"{memory_groups.PREFIX}run-7-1"
    ours.mkdir(parents=True)
    monkeypatch.setattr(memory_groups, "ROOTS", (tmp_path,))
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            inner = tmp_path / "docker" / "container" / "inner"
            inner.mkdir(parents=True)
            for path in (inner, inner.parent, inner.parent.parent):
                path.rmdir()

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        for _ in range(2000):
            assert list(memory_groups.find()) == [("run", ours)]
    finally:
        over.set()
        other.join()
