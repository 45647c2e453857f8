"""Clusters of compose files in containers: faulted by name and role, judged, and removed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from holdfast.clusters.backends.docker.image import build
from tests import needs
from tests.front import aborted
from tests.front.said import holdfast
from tests.front.test_teardown import agent_of

pytestmark = [pytest.mark.docker, pytest.mark.slow]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "compose"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the example compose files, their images replaced by that of the nodes."""
    needs.engine()
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("REDIS_IMAGE", build.tag())
    monkeypatch.setenv("ETCD_IMAGE", build.tag())
    return tmp_path


def effective(run: Path) -> set[tuple[str, str]]:
    """(kind, node) of the faults of a run that took effect."""
    faults = json.loads((run / "verdicts.json").read_text())["faults"]
    return {(one["do"], node) for one in faults if one["effective"] for node in one["nodes"]}


def of_the_engine(label: str) -> str:
    """The names of the containers and networks of a run."""
    lists = (["ps", "--all", "--format", "{{.Names}}"], ["network", "ls", "--format", "{{.Name}}"])
    words = [["docker", *one, "--filter", f"name={label}"] for one in lists]
    return "".join(
        subprocess.run(one, check=True, capture_output=True, text=True, timeout=60).stdout
        for one in words
    )


CASES = [
    ("redis-sentinel", "kill:target=redis-2,every=3s,for=500ms", ("kill", "n2"), "1s"),
    ("etcd", "kill:target=etcd2,every=3s,for=500ms", ("kill", "n2"), "2s"),
]


@pytest.mark.parametrize(("example", "named", "effect", "lease"), CASES, ids=lambda one: str(one))
def test_a_cluster_of_a_compose_file_is_faulted_at_a_service_and_at_a_role_and_judged(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch,
    example: str, named: str, effect: tuple[str, str], lease: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(folder / example)
    words = ("--nemesis", named, "--nemesis", "pause:target=leader,every=4s,for=300ms")
    said = holdfast(
        *(capsys, "run", "--system", "lock.toml", "--backend", "docker", *words),
        # Of its four pauses of a leader one or two fall into an election.
        *("--lease", lease, "--time", "16s", "--clients", "3", "--seed", "7"),
    )
    assert said.code in (0, 3), said.out + said.err
    run = (folder / example / ".holdfast/runs/latest").resolve()
    judged = json.loads((run / "verdicts.json").read_text())
    verdict = {row["property"]: row["verdict"] for row in judged["verdicts"]}
    assert "VIOLATED" not in verdict.values() and verdict["deadlock-freedom"] == "HOLDS", said.out
    assert judged["evidence"]["acquire"]["granted"] > 10
    assert effect in effective(run)
    assert [node for kind, node in effective(run) if kind == "pause"], "no leader was paused"
    assert of_the_engine(run.name) == ""


def test_what_a_kill_of_everybody_leaves_of_a_cluster_is_removed(folder: Path) -> None:
    """Amid a pause of the leader, in the middle of a call of a client."""
    example = folder / "redis-sentinel"
    faults = "pause:target=leader,every=2s,for=1s,kill:target=redis-2,every=3s,for=1s"
    run = aborted.start(example, "docker", 3, system="lock.toml", faults=faults)
    aborted.wait_for(lambda: aborted.stopped(aborted.processes_of(run.run_dir)), 30, "no pause")
    for pid in (run.driver, agent_of(run.run_dir), run.process.pid):
        os.kill(pid, signal.SIGKILL)
    run.process.wait(60)
    assert of_the_engine(run.run_dir.name), "the containers are the engine's, not the run's"
    aborted.wait_for(lambda: not aborted.processes_of(run.run_dir), 30, "a process is left")
    aborted.doctor(run, "--clean")
    assert of_the_engine(run.run_dir.name) == ""
    assert aborted.leftovers(run) == []
    assert aborted.nothing_acknowledged_is_missing(run.run_dir) >= 0


@pytest.mark.power
def test_a_service_that_exits_ends_the_run_with_its_reason(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = folder / "redis-sentinel"
    monkeypatch.chdir(example)
    text = (example / "compose.yaml").read_text()
    (example / "compose.yaml").write_text(text.replace("--appendonly yes", "--appendonly maybe", 1))
    said = holdfast(
        *(capsys, "run", "--system", "lock.toml", "--backend", "docker"),
        *("--time", "1s", "--clients", "2", "--seed", "7"),
    )
    assert (
        said.code == 4
        and ("exited at its start" in said.err or "n1 exited unexpectedly" in said.err)
        and "appendonly" in said.err
    ), said.err
    run = next((example / ".holdfast" / "runs").iterdir())
    assert of_the_engine(run.name) == ""


@pytest.mark.power
def test_an_image_is_built_from_the_folder_that_the_file_names(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = folder / "etcd"
    monkeypatch.chdir(example)
    mark = folder.name
    (example / "image").mkdir()
    (example / "image" / "Dockerfile").write_text(f"FROM {build.tag()}\nLABEL made={mark}\n")
    name = "holdfast-test-composed:1"
    text = (example / "compose.yaml").read_text()
    image = "  image: ${ETCD_IMAGE:-gcr.io/etcd-development/etcd:v3.5.17}\n"
    assert image in text
    built = text.replace(image, f"  image: {name}\n  build: ./image\n")
    (example / "compose.yaml").write_text(built)
    try:
        said = holdfast(
            *(capsys, "run", "--system", "lock.toml", "--backend", "docker"),
            *("--lease", "1s", "--time", "3s", "--clients", "2", "--seed", "7"),
        )
        assert said.code in (0, 3), said.out + said.err
        assert "grants" in said.out
        # Three services share it: it is built once.
        listed = ["docker", "images", "--all", "--quiet", "--filter", f"label=made={mark}"]
        made = subprocess.run(listed, check=True, capture_output=True, text=True, timeout=60)
        assert len(made.stdout.split()) == 1, made.stdout
    finally:
        subprocess.run(["docker", "rmi", name], check=True, capture_output=True, timeout=60)
