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
from holdfast.clusters.systems.mariadb.system import GET_LOCK, SYSTEM
from holdfast.harness.core.operations import Answer, Status
from holdfast.harness.core.ports import Node, Place
from tests import needs
from tests.front.test_runs import every_fault_has_evidence, nothing_promised_is_violated, run


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


@pytest.mark.parametrize(
    ("wait_ms", "wait_s", "said", "granted"),
    [(0, 0, (1,), True), (900, 0.9, (0,), False), (-1, 100_000_000, (None,), False)],
)
def test_a_user_lock_is_granted_only_by_a_one(
    session: ModuleType, wait_ms: int, wait_s: float, said: Sequence[Any], granted: bool
) -> None:
    asked: list[tuple[str, object]] = []

    class Asked:
        async def ask(self, words: str, *values: object, within_s: float | None) -> Sequence[Any]:
            asked.append((words, values))
            return said

    lock = importlib.import_module("holdfast.clusters.systems.mariadb.get_lock").UserLock()
    assert asyncio.run(lock.take(Asked(), "l", wait_ms, 1.0)) is granted
    assert asyncio.run(lock.give_back(Asked(), "l")) is granted
    assert asked == [
        ("select get_lock(%s, %s)", ("l", wait_s)),
        ("select release_lock(%s)", ("l",)),
    ]


@pytest.mark.real_server
def test_user_locks_keep_their_promises_under_pauses_and_restarts(tmp_path: Path) -> None:
    needs.namespaces()
    needs.binary("mariadbd")
    words = ("--system", "mariadb-get-lock", "--lease", "1s", "--time", "10s")
    faults = "pause:target=holder,every=4s,for=2s,kill:target=one,every=6s,for=300ms"
    ran = run(tmp_path, *words, "--nemesis", faults, codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"pause", "kill"})
    assert GET_LOCK.promises({}).keeps == SYSTEM.promises({}).keeps


def test_files_that_were_half_made_are_made_again(tmp_path: Path) -> None:
    (tmp_path / server.HERE).mkdir()
    (tmp_path / server.HERE / "half").touch()
    server.prepare("true", tmp_path)
    assert not (tmp_path / server.HERE).exists()
    assert (tmp_path / server.DONE).exists()
    assert len((tmp_path / server.FIRST).read_text().splitlines()) == 4


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
