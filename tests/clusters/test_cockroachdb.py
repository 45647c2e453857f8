"""CockroachDB without a CockroachDB: where clients go, what is promised, who is not there."""

from __future__ import annotations

import asyncio
import importlib
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.cockroachdb import Login, where
from holdfast.clusters.systems.cockroachdb.system import SYSTEM
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Mode, Status
from holdfast.harness.core.ports import ClientSetup
from tests import needs
from tests.front.said import holdfast


def test_the_server_is_the_one_that_was_given() -> None:
    assert where({"at": "db.internal"}) == Login(
        host="db.internal", port=26257, user="root", database="defaultdb"
    )
    told = where({"at": "10.0.0.5:5433", "user": "lock", "database": "locks"})
    assert (told.host, told.port, told.user, told.database) == ("10.0.0.5", 5433, "lock", "locks")


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"at": ":26257"}, "expected its address for clients: --set at=HOST:PORT"),
        ({"at": "db:no"}, "invalid port 'no'"),
        ({"at": "db", "idle": "1s"}, "invalid idle=1s: expected lease or none"),
        ({"at": "db", "tokens": "sequence"}, "unknown option: tokens"),
    ],
)
def test_what_is_wrong_with_the_options_is_said(options: dict[str, str], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        SYSTEM.promises(options)


@pytest.mark.power
def test_a_server_that_is_not_there_ends_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.libraries(SYSTEM.libraries)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.chdir(tmp_path)
    words = ("--backend", "local-proxy", "--clients", "1", "--time", "1s", "--seed", "7")
    said = holdfast(capsys, "run", "--system", "cockroachdb", "--set", f"at={at}", *words)
    assert said.code == 4, said.err
    assert f"cockroachdb: connection to {at} failed" in said.err
    assert "where it is with --set at=HOST:PORT" in said.err


def test_exclusion_is_promised_only_where_nothing_goes_wrong() -> None:
    promises = with_kinds(SYSTEM.promises({"at": "db"}))
    assert promises.promised("mutual-exclusion", [])
    assert not promises.promised("mutual-exclusion", ["pause"])
    assert promises.promised("orphan-freedom", ["pause", "kill"])


class Asked:
    """A session that notes what it is asked."""

    broken = busy = False

    def __init__(self) -> None:
        self.words: list[str] = []

    async def ask(self, words: str, *values: object, within_s: float | None) -> tuple[object, ...]:
        self.words.append(words)
        return ()

    def cut(self) -> None:
        """Nothing is open."""

    async def close(self) -> None:
        """Nothing is open."""


def test_the_table_is_made_once_and_the_row_is_selected_where_it_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sys.path.append(str(needs.libraries(SYSTEM.libraries)))
    client: Any = importlib.import_module("holdfast.clusters.systems.cockroachdb.client")
    session, gone_to = Asked(), list[Any]()

    async def connect(address: str, idle_ms: int, **rest: object) -> Asked:
        gone_to.append((address, idle_ms, rest))
        return session

    monkeypatch.setattr(client, "connect", connect)
    setup = ClientSetup(
        process=1,
        name="c1",
        servers=(),
        lease_ns=2_000_000_000,
        options={"at": "db:5433"},
        tell=lambda *_, **__: None,
    )

    async def talk() -> None:
        lock = client.client(setup)
        for attempt in (1, 2):
            answer = await lock.acquire(
                "l", attempt=attempt, ttl_ns=0, wait_ns=0, mode=Mode.EXCLUSIVE
            )
            assert answer.outcome is Status.OK

    asyncio.run(talk())
    there = {"port": 5433, "user": "root", "database": "defaultdb"}
    assert gone_to[0] == ("db", 2000, there)
    assert sum(words.startswith("create table") for words in session.words) == 1
    assert sum("for update nowait" in words for words in session.words) == 2
