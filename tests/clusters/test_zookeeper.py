"""ZooKeeper's adapter without ZooKeeper: its files, its four letters, and a stand-in for kazoo."""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems import zookeeper
from holdfast.clusters.systems.zookeeper import system
from holdfast.clusters.systems.zookeeper.system import SYSTEM
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from holdfast.harness.core.ports import ClientSetup, Node, Place
from tests.clusters.live import SOURCES

ERRORS = (
    "ConnectionClosedError", "ConnectionLoss", "LockTimeout", "NoNodeError",
    "OperationTimeoutError", "SessionExpiredError",
)  # fmt: skip


class Library:
    """What a stand-in of kazoo does next: the errors it raises, and what was called."""

    def __init__(self) -> None:
        self.raises: dict[str, Exception] = {}
        self.left: list[str] = []
        self.before = False
        self.calls: list[str] = []
        self.listener: Any = None

    def does(self, what: str, result: Any = None) -> Any:
        self.calls.append(what)
        if what in self.raises:
            raise self.raises[what]
        return result


@pytest.fixture
def kazoo(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The adapter over a stand-in; `adapter`, `library` and the error types by name."""
    library = Library()
    base = type("KazooException", (Exception,), {})
    errors = {name: type(name, (base,), {}) for name in ERRORS}

    class Lock:
        def __init__(self, client: Any, path: str, identifier: str) -> None:
            self.client, self.path, self.prefix = client, path, "x__lock__"
            self.node = "x__lock__0000000007"

        def acquire(self, blocking: bool, timeout: float | None) -> Any:
            assert self.client.settings["hosts"] == "10.0.0.1:2181", "all else as the client has it"
            with suppress(errors["NoNodeError"]):
                self.client.get("/holdfast/db/x__lock__0000000006")
                self.client.get("/holdfast/db/x__lock__0000000006", lambda event: None)
            return library.does("acquire", True)

        def release(self) -> Any:
            return library.does("release", True)

    def later(what: str, result: Any) -> Any:
        return SimpleNamespace(get=lambda timeout: library.does(what, result))

    class KazooClient:
        def __init__(self, **settings: Any) -> None:
            self.settings = settings

        def add_listener(self, listener: Any) -> None:
            library.listener = listener

        def get(self, path: str, watch: Any = None) -> Any:
            if not library.before:
                raise errors["NoNodeError"]()
            return b"8", None

        def exists_async(self, path: str) -> Any:
            return later("exists", SimpleNamespace(czxid=41))

        def sync_async(self, path: str) -> Any:
            return later("sync", path)

        def get_children_async(self, path: str) -> Any:
            return later("children", list(library.left))

        def set_async(self, path: str, data: bytes) -> Any:
            return later("set", None)

    yield from imported(monkeypatch, library, KazooClient, Lock, {"KazooException": base, **errors})


def imported(
    monkeypatch: pytest.MonkeyPatch,
    library: Library,
    client: type,
    lock: type,
    errors: dict[str, type],
) -> Iterator[Any]:
    """The adapter, imported with modules of kazoo that have these."""
    states = SimpleNamespace(LOST="LOST", SUSPENDED="SUSPENDED")
    contents: dict[str, dict[str, Any]] = {
        "kazoo": {},
        "kazoo.client": {"KazooClient": client},
        "kazoo.exceptions": errors,
        "kazoo.handlers": {},
        "kazoo.handlers.threading": {"KazooTimeoutError": type("Timeout", (Exception,), {})},
        "kazoo.protocol": {},
        "kazoo.protocol.states": {"KazooState": states},
        "kazoo.recipe": {},
        "kazoo.recipe.lock": {"Lock": lock},
    }
    for name, attributes in contents.items():
        module = ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    names = [
        f"holdfast.clusters.systems.zookeeper.{name}"
        for name in ("contenders", "watched", "client")
    ]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield SimpleNamespace(adapter=importlib.import_module(names[-1]), library=library, **errors)
    for name in names:
        sys.modules.pop(name, None)


def made(kazoo: Any, told: list[Any] | None = None, **options: str) -> Any:
    rows = [] if told is None else told
    setup = ClientSetup(
        process=1, name="c1", servers=[("n1", "10.0.0.1")], lease_ns=2 * SECOND, options=options,
        tell=lambda op, **rest: rows.append((op, rest["attempt"], rest.get("text", ""))),
    )  # fmt: skip
    return kazoo.adapter.client(setup)


def acquire(client: Any) -> Answer:
    mode = Mode.EXCLUSIVE
    answer = client.acquire("db", attempt=9, ttl_ns=2 * SECOND, wait_ns=SECOND, mode=mode)
    assert isinstance(answer, Answer)
    return answer


GRANT = Grant(lock="db", attempt=9, token=41, ttl_ns=2 * SECOND, granted_at_ns=0)


@pytest.mark.parametrize(("token", "number"), [("czxid", 41), ("sequence", 7)])
def test_a_lock_has_the_token_that_was_chosen(kazoo: Any, token: str, number: int) -> None:
    answer = acquire(made(kazoo, token=token))
    assert (answer.outcome, answer.token, answer.ttl_ns) == (Status.OK, number, 2 * SECOND)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("LockTimeout", Status.FAIL),
        ("ConnectionLoss", Status.INFO),
        ("OperationTimeoutError", Status.INFO),
        ("ConnectionClosedError", Status.INFO),
        ("SessionExpiredError", Status.NOT_OWNER),
        ("NoNodeError", Status.NOT_OWNER),
    ],
)
def test_errors_of_an_acquire_mean_what_the_table_says(
    kazoo: Any, error: str, outcome: Status
) -> None:
    kazoo.library.raises["acquire"] = getattr(kazoo, error)()
    assert acquire(made(kazoo)).outcome is outcome


@pytest.mark.parametrize(
    ("left", "error", "outcome"),
    [
        ([], "", Status.FAIL),
        (["y__lock__0000000006"], "", Status.FAIL),
        (["y__lock__0000000006", "x__lock__0000000007"], "", Status.INFO),
        ([], "NoNodeError", Status.FAIL),
        ([], "ConnectionLoss", Status.INFO),
        ([], "OperationTimeoutError", Status.INFO),
    ],
)
def test_an_acquire_has_failed_only_if_none_of_its_nodes_is_left(
    kazoo: Any, left: list[str], error: str, outcome: Status
) -> None:
    """kazoo ignores errors of the request that deletes the node of an acquire that timed out."""
    kazoo.library.raises["acquire"] = kazoo.LockTimeout()
    kazoo.library.left = left
    if error:
        kazoo.library.raises["children"] = getattr(kazoo, error)()
    assert acquire(made(kazoo)).outcome is outcome
    assert kazoo.library.calls[-2:] == ["sync", "children"], "all that was requested before"


def test_a_node_is_looked_for_again_over_the_next_connection(
    kazoo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers without a quorum lose connections for seconds; then the answer is certain all the
    same. As long as the session lasts: with it the node is gone."""
    kazoo.library.raises |= {"acquire": kazoo.LockTimeout(), "sync": kazoo.ConnectionLoss()}
    slept = list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            del kazoo.library.raises["sync"]

    monkeypatch.setattr(time, "sleep", sleep)
    assert acquire(made(kazoo)).outcome is Status.FAIL
    assert kazoo.library.calls == ["acquire", *["sync"] * 4, "children"]


def test_the_word_of_the_library_is_taken_if_that_is_asked_for(kazoo: Any) -> None:
    """Its bug (kazoo#732) cannot be seen otherwise: the node that it left makes a try unknown."""
    kazoo.library.raises["acquire"] = kazoo.LockTimeout()
    kazoo.library.left = ["x__lock__0000000007"]
    assert acquire(made(kazoo)).outcome is Status.INFO
    assert acquire(made(kazoo, refused="trusted")).outcome is Status.FAIL
    assert kazoo.library.calls[-1] == "acquire"


def test_a_lock_whose_token_cannot_be_read_is_given_back_and_unknown(kazoo: Any) -> None:
    kazoo.library.raises["exists"] = kazoo.ConnectionLoss()
    assert acquire(made(kazoo)).outcome is Status.INFO
    assert kazoo.library.calls == ["acquire", "exists", "release"]


def test_a_release_says_ok_only_where_a_write_proved_the_node(
    kazoo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = made(kazoo)
    monkeypatch.setattr(client, "_call_s", 0.1)
    acquire(client)
    assert client.release(GRANT).outcome is Status.OK
    kazoo.library.raises["set"] = kazoo.NoNodeError()
    assert client.release(GRANT).outcome is Status.NOT_OWNER
    kazoo.library.raises["set"] = kazoo.ConnectionLoss()
    assert client.release(GRANT).outcome is Status.INFO, "gone; it may have been its own until then"
    kazoo.library.raises["release"] = kazoo.ConnectionLoss()
    assert client.release(GRANT).outcome is Status.INFO
    assert kazoo.library.calls.count("release") == 4


@pytest.mark.parametrize("before", [False, True])
def test_an_attempt_waits_as_soon_as_a_server_watches_its_predecessor_for_it(
    kazoo: Any, before: bool
) -> None:
    kazoo.library.before = before
    told: list[Any] = []
    assert acquire(made(kazoo, told)).outcome is Status.OK
    assert told == ([(Op.WAITING, 9, "")] if before else [])


def test_the_node_of_a_session_that_is_over_proves_nothing_any_more(kazoo: Any) -> None:
    """A new session may still write to it for some time."""
    client = made(kazoo)
    acquire(client)
    kazoo.library.raises["set"] = kazoo.SessionExpiredError()
    assert client.renew(GRANT, ttl_ns=0).outcome is Status.NOT_OWNER
    del kazoo.library.raises["set"]
    assert client.renew(GRANT, ttl_ns=0).outcome is Status.NOT_OWNER
    assert client.release(GRANT).outcome is Status.NOT_OWNER
    heard = made(kazoo)
    acquire(heard)
    kazoo.library.listener("LOST")
    assert heard.renew(GRANT, ttl_ns=0).outcome is Status.NOT_OWNER


@pytest.mark.parametrize("suspended", ["ignored", "told"])
def test_the_end_of_a_session_is_told_and_a_broken_connection_where_it_is_asked_for(
    kazoo: Any, suspended: str
) -> None:
    told: list[Any] = []
    acquire(made(kazoo, told, suspended=suspended))
    kazoo.library.listener("SUSPENDED")
    assert told == ([(Op.LOST, 9, "connection")] if suspended == "told" else [])
    kazoo.library.listener("LOST")
    assert told[-2 if suspended == "ignored" else -1][:2] == (Op.CLOSED, 0)
    assert [op for op, _, _ in told].count(Op.LOST) == 1


@pytest.mark.parametrize(
    ("lease_ms", "tick_ms", "granted_ms"),
    [(2000, 500, 2000), (500, 500, 1000), (90_000, 500, 60_000)],
)
def test_the_session_is_what_the_server_will_grant(
    lease_ms: int, tick_ms: int, granted_ms: int
) -> None:
    granted = zookeeper.session_ns(lease_ms * MILLISECOND, tick_ms)
    assert granted == granted_ms * MILLISECOND


def test_a_server_has_its_number_and_knows_the_others(tmp_path: Path) -> None:
    place = Place(run_id="r", run_dir=tmp_path, shared=(SOURCES,), label="r")
    nodes = [Node(name=f"n{n}", role="server", address=f"10.0.0.{n}") for n in (1, 2, 3)]
    command = SYSTEM.command(nodes[1], nodes, place, {"sync": "no"})
    data = tmp_path / "data" / "n2"
    assert (data / "myid").read_text() == "2\n"
    lines = (data / "zoo.cfg").read_text().splitlines()
    assert "server.3=10.0.0.3:2888:3888" in lines
    assert "clientPortAddress=10.0.0.2" in lines
    assert command.argv[-1] == str(data / "zoo.cfg")
    assert "-Dzookeeper.forceSync=no" in command.argv


def test_what_is_not_synced_is_not_promised_to_survive_a_kill() -> None:
    assert with_kinds(SYSTEM.promises({})).promised("mutual-exclusion", ["kill"])
    assert not with_kinds(SYSTEM.promises({"sync": "no"})).promised("mutual-exclusion", ["kill"])
    assert not with_kinds(SYSTEM.promises({})).promised("no-hung-request", ["partition"])


def test_options_and_places_that_cannot_be_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'token'"):
        SYSTEM.promises({"tokens": "czxid"})
    place = Place(run_id="r", run_dir=tmp_path, shared=(SOURCES,), label="r")
    nodes = [Node(name=f"n{n}", role="server", address=f"127.9.0.{n}") for n in (1, 2)]
    with pytest.raises(EnvironmentFailed, match="--backend docker, or --nodes 1"):
        SYSTEM.command(nodes[0], nodes, place, {})


@pytest.mark.parametrize(
    ("said", "mode"),
    [
        (b"Zookeeper version: 3.8.0\nMode: follower\nNode count: 5\n", "follower"),
        (b"This ZooKeeper instance is not currently serving requests\n", ""),
    ],
)
def test_the_mode_of_a_server_is_read_from_its_words(
    monkeypatch: pytest.MonkeyPatch, said: bytes, mode: str
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(said)
        writer.close()

    async def ask() -> str:
        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        monkeypatch.setattr(system, "PORT", listening.sockets[0].getsockname()[1])
        try:
            return await system.mode("127.0.0.1")
        finally:
            listening.close()

    assert asyncio.run(ask()) == mode
