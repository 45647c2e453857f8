"""MariaDB row locks without a server: what errors mean, what is asked, how it is started."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.clusters.systems.mariadb import server
from holdfast.clusters.systems.mariadb.system import SYSTEM
from holdfast.harness.core.operations import Answer, Status
from holdfast.harness.core.ports import Node, Place
from tests import needs


@pytest.fixture(scope="module")
def session() -> ModuleType:
    """The module over PyMySQL, which lies in a folder of its own."""
    sys.path.append(str(needs.libraries(SYSTEM.libraries)))
    return importlib.import_module("holdfast.clusters.systems.mariadb.session")


@pytest.mark.parametrize(
    ("number", "outcome"),
    [
        (1205, Status.FAIL),
        (1213, Status.FAIL),
        (1040, Status.FAIL),
        (1927, Status.NOT_OWNER),
        (2006, Status.INFO),
        (2013, Status.INFO),
        (1290, Status.INFO),
    ],
)
def test_only_what_is_sure_is_more_than_unknown(
    session: ModuleType, number: int, outcome: Status
) -> None:
    error = session.pymysql.err.OperationalError(number, "two\nlines")
    answer = session.meant(error)
    assert answer.outcome is outcome
    assert "\n" not in answer.error
    assert session.meant(OSError("away")) == Answer(outcome=Status.INFO, error="OSError: away")


@pytest.mark.parametrize(
    ("wait_ms", "ends"),
    [(0, "nowait"), (900, "nowait"), (2500, "wait 2"), (-1, "wait 100000000")],
)
def test_waits_are_whole_seconds_and_never_longer_than_asked(
    session: ModuleType, wait_ms: int, ends: str
) -> None:
    asked: list[str] = []

    class Asked:
        async def ask(self, words: str, *values: object, within_s: float | None) -> Sequence[Any]:
            asked.append(words)
            return ("l",)

    lock = importlib.import_module("holdfast.clusters.systems.mariadb.client").RowLock()
    assert asyncio.run(lock.take(Asked(), "l", wait_ms, 1.0))
    assert asked[0].endswith(f" for update {ends}")


def test_files_that_were_half_made_are_made_again(tmp_path: Path) -> None:
    (tmp_path / server.HERE).mkdir()
    (tmp_path / server.HERE / "half").touch()
    server.prepare("true", tmp_path)
    assert not (tmp_path / server.HERE).exists()
    assert (tmp_path / server.DONE).exists()
    assert len((tmp_path / server.FIRST).read_text().splitlines()) == 3


def test_a_server_that_is_not_installed_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "PATHS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install mariadb-server, or use --backend docker" in str(SYSTEM.precheck())
    assert server.main(["--config", '{"data": "d", "address": "a"}']) == 1
    assert "not installed on this node" in capsys.readouterr().err


def test_a_server_is_known_by_its_prelude(tmp_path: Path) -> None:
    node = Node(name="n1", role="server", address="127.0.0.1")
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="r")
    command = SYSTEM.command(node, [node], place, {})
    assert command.prelude in command.argv and not command.nobody
