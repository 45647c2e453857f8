"""Logs of servers that refuse to be root belong to them; nobody else may write them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holdfast.clusters.backends.docker import backend
from tests import needs


def test_a_log_is_given_to_the_user_that_writes_it(tmp_path: Path) -> None:
    needs.root()
    log = tmp_path / "server.log"
    backend._give(log)
    assert log.stat().st_uid == 65534
    assert not log.stat().st_mode & stat.S_IWOTH


def test_without_root_it_is_open_only_until_the_server_has_opened_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `start` does after the server is itself stands beside; the mode here is of the moment
    in between."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    log = tmp_path / "server.log"
    backend._give(log)
    assert log.stat().st_mode & 0o777 == 0o666


def test_no_file_is_made_for_everybody_anywhere_else() -> None:
    """`0o666` and the like stand in one place of what is not the tests'."""
    rooms = ("clusters", "harness", "nemesis", "workloads", "reports", "src/holdfast")
    root = Path(backend.__file__).resolve().parents[3]
    found = [
        path.relative_to(root).as_posix()
        for room in rooms
        for path in (root / room).rglob("*.py")
        if not path.is_relative_to(root / "src" / "holdfast" / "clusters")
        and any(mode in path.read_text() for mode in ("0o666", "0o777", "0o622", "0o662"))
        and "src/holdfast/clusters" not in path.as_posix()
    ]
    # The second is below a folder of its owner alone (`test_compose_file`).
    composed = "clusters/systems/composed/system.py"
    assert sorted(found) == ["clusters/backends/docker/backend.py", composed]
