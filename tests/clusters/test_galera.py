"""MariaDB under Galera: how servers start, which session is opened, what errors mean there."""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.database_client import Failed, NoSession
from holdfast.clusters.systems.galera import node, status
from holdfast.clusters.systems.galera.system import GET_LOCK, SYSTEM
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Answer, Status
from holdfast.harness.core.ports import Node, Place
from tests import needs
from tests.front.test_runs import every_fault_has_evidence, nothing_promised_is_violated, run

NODES = [Node(name=f"n{n}", role="server", address=f"10.0.0.{n}") for n in (1, 2, 3)]


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(needs.libraries(SYSTEM.libraries)))
    return importlib.import_module("holdfast.clusters.systems.galera.session")


def config(tmp_path: Path, at: int) -> dict[str, str]:
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="r")
    command = SYSTEM.command(NODES[at], NODES, place, {})
    assert command.nobody and command.prelude in command.argv
    told: dict[str, str] = json.loads(command.argv[-1])
    return told


def test_the_first_server_starts_the_cluster_once_and_the_others_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = config(tmp_path, 0), config(tmp_path, 1)
    assert second["peers"] == "10.0.0.1,10.0.0.2,10.0.0.3"
    words = node.settings(second)
    assert "--wsrep-cluster-address=gcomm://10.0.0.1,10.0.0.2,10.0.0.3" in words
    assert "--bind-address=10.0.0.2" in words and "--innodb-flush-log-at-trx-commit=1" in words
    asked: list[Sequence[str]] = []

    def met(peers: Sequence[str]) -> bool:
        asked.append(peers)
        return True

    monkeypatch.setattr(node, "wait_for", met)
    monkeypatch.setattr(node, "recovered", lambda server, words: "u-u-i-d:7")
    assert node.beginning(first, "mariadbd", [])[0] == "--wsrep-new-cluster"
    assert node.beginning(second, "mariadbd", []) == [] and asked == [["10.0.0.1", "10.0.0.3"]]
    # What was killed never starts another cluster.
    for told in (first, second):
        assert node.beginning(told, "mariadbd", []) == ["--wsrep-start-position=u-u-i-d:7"]


def test_a_server_that_meets_no_other_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "wait_for", lambda peers: False)
    with pytest.raises(OSError, match="no other server accepts connections"):
        node.beginning(config(tmp_path, 2), "mariadbd", [])


@pytest.mark.parametrize(
    ("said", "position"),
    [
        ("[Note] WSREP: Recovered position: 1b-2c:42\n", "1b-2c:42"),
        ("[Note] WSREP: Recovered position: 00-00:-1,0-1-2\n", "00-00:-1"),
        ("[Note] nothing of that kind\n", ""),
    ],
)
def test_the_position_of_a_killed_server_is_in_its_log(
    said: str, position: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(words: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
        assert words == ["mariadbd", "--datadir=d", "--wsrep-recover"]
        return subprocess.CompletedProcess(words, 0, "", said)

    monkeypatch.setattr(subprocess, "run", ran)
    assert node.recovered("mariadbd", ["--datadir=d"]) == position


def packets(*payloads: bytes) -> bytes:
    return b"".join(len(one).to_bytes(3, "little") + b"\0" + one for one in payloads)


def text(*values: str) -> bytes:
    return b"".join(bytes([len(value)]) + value.encode() for value in values)


ROWS = [text("wsrep_ready", "ON"), text("wsrep_last_committed", "12")]
END = b"\xfe\0\0\2\0"
HELLO, WELCOME = b"\x0a10.11", b"\0\0\0\2\0\0\0"


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (
            packets(HELLO, WELCOME, b"\2", b"name", b"value", END, *ROWS, END),
            {"wsrep_ready": "ON", "wsrep_last_committed": "12"},
        ),
        (packets(HELLO, b"\xffdenied"), {}),
        (packets(HELLO, WELCOME, b"\xffrefused"), {}),
        (packets(HELLO)[:3], {}),
    ],
)
def test_the_driver_reads_the_state_of_a_server(
    sent: bytes, found: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()
        writer.write_eof()
        await reader.read()

    async def asked() -> dict[str, str]:
        server = await asyncio.start_server(served, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            monkeypatch.setattr(status, "PORT", port)
            return await status.states("127.0.0.1")

    assert asyncio.run(asked()) == found


class Answering:
    """A session that answers each statement, or fails."""

    broken = busy = False

    def __init__(self, ready: str, failure: str = "") -> None:
        self.ready, self.failure, self.ended = ready, failure, list[str]()
        self.asked = list[tuple[object, ...]]()

    async def ask(self, words: str, *values: object, within_s: float | None) -> Sequence[Any]:
        self.asked.append((words, *values))
        if "wsrep_ready" in words:
            return ("wsrep_ready", self.ready)
        if self.failure and not words.startswith("set"):
            raise Failed(Answer(outcome=Status.FAIL, error=self.failure))
        return ()

    def cut(self) -> None:
        self.ended.append("cut")

    async def close(self) -> None:
        self.ended.append("closed")


def opening(answering: Answering) -> Callable[[str, int], Awaitable[Answering]]:
    async def connect(address: str, idle_ms: int) -> Answering:
        return answering

    return connect


def test_no_session_is_opened_with_a_server_without_a_majority(
    sessions: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = Answering("OFF")
    monkeypatch.setattr(sessions, "connect", opening(alone))
    with pytest.raises(NoSession, match="a is not in a component with a majority"):
        asyncio.run(sessions.open_at("a", 0, 7, 0))
    assert alone.ended == ["closed"]
    member = Answering("ON")
    monkeypatch.setattr(sessions, "connect", opening(member))
    asyncio.run(sessions.open_at("a", 0, 7, 1))
    assert member.asked[-1] == (sessions.SETTINGS, 7, 1)


@pytest.mark.parametrize(
    ("failure", "outcome", "ended"),
    [
        ("OperationalError: (1213, 'Deadlock found')", Status.INFO, []),
        ("OperationalError: (1047, 'not yet prepared')", Status.INFO, ["cut"]),
        ("OperationalError: (1205, 'Lock wait timeout')", Status.FAIL, []),
    ],
)
def test_what_the_cluster_rejected_may_have_been_replicated_before(
    failure: str,
    outcome: Status,
    ended: list[str],
    sessions: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Answering("ON", failure)
    monkeypatch.setattr(sessions, "connect", opening(server))

    async def asked() -> None:
        session = await sessions.open_at("a", 0, 7, 0)
        await session.ask("update", within_s=1)

    with pytest.raises(Failed) as failed:
        asyncio.run(asked())
    assert failed.value.answer.outcome is outcome and server.ended == ended


def test_user_locks_promise_no_exclusion_between_servers() -> None:
    assert "mutual-exclusion" not in GET_LOCK.promises({}).keeps
    assert (
        "partition" in with_kinds(GET_LOCK.promises({"servers": "first"})).keeps["mutual-exclusion"]
    )
    assert "kill" in with_kinds(SYSTEM.promises({"retry": "1"})).keeps["mutual-exclusion"]
    assert with_kinds(SYSTEM.promises({"sync_wait": "0"})).keeps["ownership"] == ()
    with pytest.raises(UsageError, match="unknown option sync"):
        GET_LOCK.promises({"sync_wait": "7"})


@pytest.mark.real_server
def test_a_row_lease_survives_a_killed_server_that_fetches_what_it_missed(tmp_path: Path) -> None:
    needs.namespaces()
    needs.unless(SYSTEM.precheck())
    # The others grant again once they have excluded it, after 1.5 s and a round of messages.
    kill = ("--nemesis", "kill:target=one,at=2s,for=5s")
    words = ("--system", "galera-lease", "--lease", "2s", "--clients", "3", "--time", "12s")
    ran = run(tmp_path, *words, *kill, codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"kill"})
    assert ran.verdict("mutual-exclusion") == "HOLDS"


@pytest.mark.power
@pytest.mark.real_server
def test_user_locks_on_two_servers_have_two_owners_without_a_fault(tmp_path: Path) -> None:
    needs.namespaces()
    needs.unless(GET_LOCK.precheck())
    words = ("--system", "galera-get-lock", "--lease", "2s", "--clients", "4", "--time", "5s")
    assert run(tmp_path, *words, codes=(0, 3)).verdict("mutual-exclusion") == "VIOLATED"
