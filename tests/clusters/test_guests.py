"""Servers from foreign images: faults bite without anything of ours in them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.front.author import ROOT
from tests.front.said import holdfast

pytestmark = pytest.mark.docker
SOURCES = ROOT / "src" / "holdfast" / "starters" / "program"
NAME = "holdfast-test-wall:1"
RUN = ("run", "--backend", "docker", "--clients", "3", "--seed", "7")


def run(*words: str, cwd: Path | None = None) -> None:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{words}: {done.stderr}"


@pytest.fixture
def wall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the example, its server changed to end leases by the wall clock."""
    needs.engine()
    needs.binary("gcc")
    for name in ("client.c", "Dockerfile"):
        shutil.copy(SOURCES / name, tmp_path)
    text = (SOURCES / "server.c").read_text()
    (tmp_path / "server.c").write_text(text.replace("CLOCK_BOOTTIME", "CLOCK_REALTIME"))
    table = (SOURCES / "image.toml").read_text().replace("my-lock:1", NAME)
    (tmp_path / "mylock.toml").write_text(table)
    for name in ("server", "client"):
        run("gcc", "-O2", "-static", "-o", name, f"{name}.c", cwd=tmp_path)
    run("docker", "build", "--quiet", "--tag", NAME, ".", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    run("docker", "rmi", NAME)


@pytest.mark.power
def test_a_step_of_the_wall_clock_ends_leases_in_an_image_with_one_static_program(
    capsys: pytest.CaptureFixture[str], wall: Path
) -> None:
    step = "clock:step=60s,target=one,every=2s,for=1s"
    words = ("--nemesis", step, "--lease", "500ms", "--time", "5s", "--workload", "renewal")
    said = holdfast(capsys, *RUN, "--system", "mylock.toml", *words)
    assert said.code == 1, said.out + said.err
    assert "broke its promise of mutual exclusion" in said.out and "clock)" in said.out


def test_what_is_wrong_with_an_image_is_told_and_nothing_is_left(
    capsys: pytest.CaptureFixture[str], wall: Path
) -> None:
    table = (wall / "mylock.toml").read_text()
    (wall / "gone.toml").write_text(table.replace(NAME, "holdfast-test-gone:1"))
    said = holdfast(capsys, *RUN, "--system", "gone.toml", "--time", "1s")
    assert said.code == 4
    told = "missing image holdfast-test-gone:1; build it: docker build -t holdfast-test-gone:1 ."
    assert told in said.err
    (wall / "bad.toml").write_text(table.replace("{address} 7400 {data}", "{address}"))
    said = holdfast(capsys, *RUN, "--system", "bad.toml", "--time", "1s")
    assert said.code == 4
    assert re.search("n1.* exited .*: server ADDRESS PORT FOLDER", said.err), said.err
    labels = subprocess.run(
        ["docker", "ps", "-a", "--format", "{{.Names}}"], capture_output=True, text=True, timeout=60
    )
    assert "gone.toml" not in labels.stdout and "bad.toml" not in labels.stdout
