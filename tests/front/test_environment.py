"""What is missing, taken or of the wrong version: named once, exit 4, logs kept, nothing left."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from tests import needs
from tests.front.said import Said, holdfast

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
REDIS = ("run", "--system", "redis", "--time", "2s", "--clients", "2", "--seed", "7")
TABLE = """
[system]
server = "{python} -m http.server --bind {address} PORT"
ports = [PORT]
client = "{python} client.py {node}"
[system.promises]
mutual-exclusion = "any"
"""


def failed(said: Said, part: str) -> None:
    """One message, no traceback, the exit code of an environment that failed."""
    assert said.code == 4, said.out + said.err
    told = [line for line in said.err.splitlines() if line.startswith("holdfast: ")]
    assert len([line for line in told if part in line]) == 1, said.err
    assert "Traceback" not in said.err


def nothing_is_left(folder: Path) -> None:
    """No process speaks of the folder any more."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path("/proc", pid, "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        assert f"{folder}/.holdfast" not in words, words


def a_command(folder: Path, monkeypatch: Patch, text: str) -> None:
    """Puts a redis-server in front of the one that may be installed."""
    command = folder / "bin" / "redis-server"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\n{text}\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(folder)


@pytest.mark.parametrize(
    "why",
    [
        "cannot allocate memory",
        "FATAL CONFIG FILE ERROR (Redis 2.4.1): bad directive --protected-mode",
    ],
    ids=["dies", "wrong-version"],
)
def test_a_server_that_does_not_start_is_named_with_its_last_words(
    capsys: Capture, tmp_path: Path, monkeypatch: Patch, why: str
) -> None:
    needs.namespaces()
    needs.libraries(("redis==8.1.0", "async-timeout==5.0.1"))
    a_command(tmp_path, monkeypatch, f"echo '{why}' >&2; exit 1")
    said = holdfast(capsys, *REDIS)
    log = tmp_path / ".holdfast/runs/latest/logs/n1/redis.log"
    failed(said, f"n1 exited unexpectedly: {why} (see {log.resolve()})")
    assert why in log.read_text()
    nothing_is_left(tmp_path)


@pytest.mark.power
def test_a_server_that_never_answers_is_given_up(
    capsys: Capture, tmp_path: Path, monkeypatch: Patch
) -> None:
    needs.namespaces()
    needs.libraries(("redis==8.1.0", "async-timeout==5.0.1"))
    a_command(tmp_path, monkeypatch, "echo 'loading' >&2; exec sleep 300")
    said = holdfast(capsys, *REDIS)
    failed(said, "redis: n1 was not ready within 20 s; see ")
    assert (tmp_path / ".holdfast/runs/latest/logs/n1/redis.log").read_text() == "loading\n"
    nothing_is_left(tmp_path)


def test_a_server_that_is_not_installed_is_named_with_what_to_do(
    capsys: Capture, tmp_path: Path, monkeypatch: Patch
) -> None:
    needs.namespaces()
    needs.libraries(("redis==8.1.0", "async-timeout==5.0.1"))
    bare = tmp_path / "bin"
    bare.mkdir()
    for command in ("setpriv", "unshare", "nsenter", "ip", "nft"):
        if found := shutil.which(command, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
            (bare / command).symlink_to(found)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(bare))
    said = holdfast(capsys, *REDIS, "--backend", "local-proxy")
    failed(said, "redis-server is not installed; install it, or use --backend docker")


def test_a_version_of_a_library_that_nobody_published_is_named(
    capsys: Capture, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    said = holdfast(capsys, *REDIS, "--library", "redis==0.0.0.1")
    assert said.code == 2, "a name that the user can mend"
    assert "libraries: pip finds no redis==0.0.0.1" in said.err and "Traceback" not in said.err
    assert not list((tmp_path / "cache").rglob("redis*")), "nothing half-fetched"


def test_a_port_that_is_taken_is_named_with_its_address(
    capsys: Capture, tmp_path: Path, monkeypatch: Patch
) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        text = TABLE.replace("PORT", str(port)).replace("{python}", sys.executable)
        (tmp_path / "mine.toml").write_text(text)
        (tmp_path / "client.py").write_text("import sys\nsys.stdin.read()\n")
        monkeypatch.chdir(tmp_path)
        words = ("--backend", "local-proxy", "--clients", "2", "--time", "2s", "--seed", "7")
        said = holdfast(capsys, "run", "--system", "mine.toml", *words)
    failed(said, f":{port}: error while attempting to bind")
    assert "address already in use" in said.err
    assert list((tmp_path / ".holdfast/runs/latest/logs").rglob("*.log"))
    nothing_is_left(tmp_path)
