"""The node image: named by its ingredients, built over whatever mirror the host uses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.clusters.backends.docker.image import build
from holdfast.harness.core.errors import EnvironmentFailed
from tests import needs

ROOT = Path(__file__).resolve().parents[2]


def test_another_dockerfile_is_another_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = build.tag()
    assert re.fullmatch(r"holdfast-node:[0-9a-f]{12}", before)
    for name in build.INGREDIENTS:
        (tmp_path / name).write_bytes((build.HERE / name).read_bytes())
    monkeypatch.setattr(build, "HERE", tmp_path)
    assert build.tag() == before
    with (tmp_path / "policy-rc.d").open("a") as more:
        more.write("\n")
    assert build.tag() != before


def test_a_system_brings_the_packages_of_its_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = build.tag()
    assert {"redis-server", "zookeeper"} <= set(build.servers().split())
    for folder, text in (("a", "lockd\nlock-tools\n"), ("b", "lockd\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "packages.txt").write_text(text)
    monkeypatch.setattr(build, "SYSTEMS", tmp_path)
    assert build.servers() == "lock-tools lockd" and build.tag() != before


def test_the_ingredients_name_no_mirror() -> None:
    for name in build.INGREDIENTS:
        assert "://" not in (build.HERE / name).read_text()


def test_the_host_lends_its_sources_of_the_release_and_its_settings_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {
        "get": [
            "http://mirror.test/debian/ bookworm main",
            "http://mirror.test/debian/ bookworm-updates main",
            "http://mirror.test/debian/ bookworm non-free",
            "http://other.test/ vendor-bookworm main",
        ],
        "config": [
            'Acquire::http::Proxy "http://proxy.test:3128";',
            'Acquire::Languages "";',
        ],
    }
    monkeypatch.setattr(build, "apt", lambda tool, *_: said[tool])
    build.lend_apt(tmp_path / "host-apt")
    assert (tmp_path / "host-apt" / "sources.list").read_text().splitlines() == [
        "deb http://mirror.test/debian/ bookworm main",
        "deb http://mirror.test/debian/ bookworm-updates main",
    ]
    settings = (tmp_path / "host-apt" / "apt.conf").read_text().splitlines()
    assert 'Dir::Etc::sourcelist "/tmp/host-apt/sources.list";' in settings
    assert 'Acquire::http::Proxy "http://proxy.test:3128";' in settings
    assert not any("Languages" in line for line in settings)


def test_a_host_without_apt_lends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    build.lend_apt(tmp_path / "host-apt")
    assert not (tmp_path / "host-apt" / "sources.list").exists()
    with pytest.raises(EnvironmentFailed, match="no `docker` command"):
        build.build()


def test_a_failing_step_says_its_last_words() -> None:
    with pytest.raises(EnvironmentFailed, match=r"image: `.* -c` failed:\nmirror is away"):
        build.run(sys.executable, "-c", "raise SystemExit('mirror is away')")
    with pytest.raises(EnvironmentFailed, match=r"took more than 0\.2 s"):
        build.run(sys.executable, "-c", "import time; time.sleep(9)", seconds=0.2)


@pytest.mark.docker
def test_an_image_that_exists_is_not_built_again() -> None:
    needs.engine()
    needs.binary("docker")
    assert build.build() is False


@pytest.mark.docker
def test_the_image_can_run_what_nodes_run() -> None:
    needs.engine()
    needs.binary("docker")
    program = "import asyncio, ctypes, json, mmap, ssl, sys; assert sys.version_info >= (3, 11)"
    for command in (
        ["python3", "-I", "-S", "-c", program],
        ["redis-server", "--version"],
        ["ip", "-V"],
        ["flock", "--version"],
        ["nft", "--version"],
    ):
        done = subprocess.run(
            ["docker", "run", "--rm", "--cap-drop=ALL", "--user=65534", build.tag(), *command],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr


def test_every_package_that_ci_installs_is_named_once() -> None:
    files = [ROOT / ".ci" / "packages.txt", *build.SYSTEMS.glob("*/packages.txt")]
    lines = [line for path in files for line in path.read_text().splitlines()]
    packages = [line for line in lines if line and not line.startswith("#")]
    assert len(packages) == len(set(packages))
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", package) for package in packages)
