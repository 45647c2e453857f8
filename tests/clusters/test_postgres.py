"""PostgreSQL locks without a server: what errors mean, what a session that breaks comes to."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.database_client import Failed
from holdfast.clusters.systems.postgres import PORT, deploy, pooler, server
from holdfast.clusters.systems.postgres.advisory.system import SYSTEM as ADVISORY
from holdfast.clusters.systems.postgres.row.system import SYSTEM as ROW
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from holdfast.harness.core.ports import ClientSetup, Node, Place
from tests import needs

LEASE_NS = 1_000_000_000
GRANT = Grant(lock="l", attempt=7, token=-1, ttl_ns=0, granted_at_ns=0)


@pytest.fixture(scope="module")
def session() -> ModuleType:
    """The module over psycopg, which lies in a folder of its own."""
    sys.path.append(str(needs.libraries(ADVISORY.libraries)))
    return importlib.import_module("holdfast.clusters.systems.postgres.session")


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("LockNotAvailable", Status.FAIL),
        ("QueryCanceled", Status.FAIL),
        ("TooManyConnections", Status.FAIL),
        ("IdleSessionTimeout", Status.NOT_OWNER),
        ("IdleInTransactionSessionTimeout", Status.NOT_OWNER),
        ("CrashShutdown", Status.NOT_OWNER),
        ("OperationalError", Status.INFO),
        ("InternalError", Status.INFO),
        ("DiskFull", Status.INFO),
    ],
)
def test_only_what_is_sure_is_more_than_unknown(
    session: ModuleType, name: str, outcome: Status
) -> None:
    error = getattr(session.errors, name)("two\nlines")
    assert session.meant(error) == Answer(outcome=outcome, error=f"{name}: two lines")


class Scripted:
    """A session that answers, or raises, what a function says."""

    def __init__(self, say: Callable[[str], Sequence[Any]]) -> None:
        self._say = say
        self.busy = self.broken = False
        self.asked: list[str] = []

    async def ask(self, words: str, *values: object, within_s: float | None) -> Sequence[Any]:
        self.asked.append(words)
        return self._say(words)

    def cut(self) -> None:
        self.broken = True

    async def close(self) -> None:
        self.broken = True


def holding(
    session: ModuleType, say: Callable[[str], Sequence[Any]], scope: str = "session"
) -> tuple[Any, Scripted, list[tuple[Op, str]]]:
    """A client whose next session is scripted, and what it tells."""
    told: list[tuple[Op, str]] = []
    client = importlib.import_module("holdfast.clusters.systems.postgres.advisory.client")
    setup = ClientSetup(
        process=1,
        name="c1",
        servers=[("n1", "127.0.0.1")],
        lease_ns=LEASE_NS,
        options={"scope": scope},
        tell=lambda op, *, attempt, lock, text="", **rest: told.append((op, text)),
    )
    made, scripted = client.client(setup), Scripted(say)
    made._spare.append(scripted)
    return made, scripted, told


def acquired(made: Any, wait_ns: int = LEASE_NS) -> Any:
    return made.acquire("l", attempt=7, ttl_ns=LEASE_NS, wait_ns=wait_ns, mode=Mode.EXCLUSIVE)


@pytest.mark.parametrize("scope", ["session", "transaction"])
def test_a_wait_that_is_over_leaves_a_session_that_serves_again(
    session: ModuleType, scope: str
) -> None:
    def say(words: str) -> Sequence[Any]:
        if "_lock(" in words:
            raise Failed(Answer(outcome=Status.FAIL, error="lock timeout"))
        return (True,)

    made, scripted, told = holding(session, say, scope)
    assert asyncio.run(acquired(made)).outcome is Status.FAIL
    assert scripted.asked[-1] == "rollback"
    assert made._spare == [scripted] and told == []


def test_an_acquire_whose_connection_broke_is_unknown_and_its_session_is_closed(
    session: ModuleType,
) -> None:
    def say(words: str) -> Sequence[Any]:
        if "_lock(" in words:
            raise Failed(Answer(outcome=Status.INFO, error="server closed the connection"))
        return (True,)

    made, scripted, told = holding(session, say)
    assert asyncio.run(acquired(made)).outcome is Status.INFO
    assert scripted.broken
    assert told == [(Op.CLOSED, "server closed the connection")]


def test_a_holder_is_told_once_when_its_session_no_longer_answers(session: ModuleType) -> None:
    alive = True

    def say(words: str) -> Sequence[Any]:
        if not alive:
            raise Failed(Answer(outcome=Status.NOT_OWNER, error="terminating connection"))
        return (True,)

    made, _, told = holding(session, say)

    async def story() -> list[Status]:
        nonlocal alive
        granted = await acquired(made)
        renewed = await made.renew(GRANT, ttl_ns=LEASE_NS)
        alive = False
        lost = await made.renew(GRANT, ttl_ns=LEASE_NS)
        late = await made.release(GRANT)
        return [answer.outcome for answer in (granted, renewed, lost, late)]

    outcomes = asyncio.run(story())
    assert outcomes == [Status.OK, Status.OK, Status.NOT_OWNER, Status.NOT_OWNER]
    assert told == [(Op.CLOSED, "terminating connection")]


@pytest.mark.parametrize("ours", [True, False])
def test_an_unlock_says_whether_the_session_had_the_lock(session: ModuleType, ours: bool) -> None:
    made, _, _ = holding(session, lambda words: (ours or "unlock" not in words,))

    async def story() -> Any:
        await acquired(made, wait_ns=0)
        return await made.release(GRANT)

    assert asyncio.run(story()).outcome is (Status.OK if ours else Status.NOT_OWNER)


def test_numbers_of_open_transactions_may_repeat_after_a_crash() -> None:
    drawn = {"tokens": "sequence"}
    assert with_kinds(ADVISORY.promises(drawn)).promised("token-order", ["kill"])
    assert not with_kinds(ADVISORY.promises({**drawn, "scope": "transaction"})).promised(
        "token-order", ["kill"]
    )
    assert not with_kinds(ROW.promises(drawn)).promised("token-order", ["kill"])
    assert with_kinds(ROW.promises(drawn)).promised("mutual-exclusion", ["kill", "clock"])


def test_a_row_lock_has_one_scope_only() -> None:
    with pytest.raises(UsageError, match="unknown option scope"):
        ROW.promises({"scope": "session"})


def test_a_server_is_started_as_nobody_and_known_by_its_prelude(tmp_path: Path) -> None:
    node = Node(name="n1", role="server", address="127.0.0.1")
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="r")
    command = deploy.command(node, place)
    assert command.nobody and command.prelude in command.argv


def test_a_pooler_stands_where_clients_look_for_the_server(tmp_path: Path) -> None:
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="r")
    node = Node(name="n1", role="server", address="10.0.0.1")
    assert ADVISORY.command(node, (node,), place, {}).prelude == deploy.MODULE
    assert ADVISORY.command(node, (node,), place, {"via": "pgbouncer"}).prelude == deploy.POOLER
    lines = pooler.settings("10.0.0.1").splitlines()
    assert f"listen_port = {PORT}" in lines
    assert f"port={pooler.BEHIND} " in lines[1]
    assert "pool_mode = transaction" in lines
    assert "a pooler assigns" in ADVISORY.promises({"via": "pgbouncer"}).sheet["owner identity"]


def test_without_the_server_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(server, "PACKAGED", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "install postgresql, or use --backend docker" in str(ADVISORY.precheck())


def test_root_without_user_namespaces_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploy, "binary", lambda name: "/bin/true")
    monkeypatch.setattr(deploy, "UNPRIVILEGED", ("false",))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "postgres refuses to run as root" in str(ADVISORY.precheck())
