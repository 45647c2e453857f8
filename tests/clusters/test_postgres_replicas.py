"""PostgreSQL with a standby: roles, settings, promises, what becomes of a former primary."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.database_client import DatabaseServers, NoSession, Session
from holdfast.clusters.systems.postgres import replication, wire
from holdfast.clusters.systems.postgres.advisory.system import SYSTEM as ADVISORY
from holdfast.clusters.systems.postgres.replication import ReplicationState
from holdfast.clusters.systems.postgres.server import HERE, STANDBY
from holdfast.clusters.systems.postgres.system import PostgresSystem
from holdfast.clusters.systems.sql_lease.system import MARIADB, POSTGRES, SqlLease
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.fault_traits import FORCE, HANDOVER
from holdfast.harness.core.ports import ClientSetup, Leader, Node, Place
from tests.clusters.test_sql_lease import Script

N1, N2 = (Node(name=f"n{n}", role="server", address=f"10.0.0.{n}") for n in (1, 2))
PAIR = {"replicas": "1"}
SYNCED = {"replicas": "1", "synchronous": "yes"}
OPENED = b"R" + struct.pack("!ii", 8, 0) + b"Z" + struct.pack("!ic", 5, b"I")


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def data_row(*values: str | None) -> bytes:
    words = [
        struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value.encode()
        for value in values
    ]
    return message(b"D", struct.pack("!h", len(values)) + b"".join(words))


READY = message(b"Z", b"I")


def asked(monkeypatch: pytest.MonkeyPatch, *said: bytes) -> wire.Row | None:
    """The row that a server's words amount to, one block of them per message of the client."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for words in said:
            await reader.read(1000)
            writer.write(words)
        writer.close()

    async def ask() -> wire.Row | None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        monkeypatch.setattr(wire, "PORT", server.sockets[0].getsockname()[1])
        async with server:
            return await wire.first_row("127.0.0.1", "select 1", 5)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("said", "row"),
    [
        ([OPENED, data_row("t", None, "12") + data_row("f") + READY], ("t", "", "12")),
        ([OPENED, READY], ()),
        ([OPENED, message(b"E", b"wrong") + READY], None),
        ([message(b"E", b"starting up")], None),
        ([OPENED, b"D"], None),
        ([OPENED, b"D" + struct.pack("!i", 1 << 30)], None),
        ([], None),
    ],
)
def test_a_query_has_its_first_row_or_nothing(
    said: Sequence[bytes], row: wire.Row | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(monkeypatch, *said) == row


def with_roles(monkeypatch: pytest.MonkeyPatch, **roles: tuple[bool, int]) -> None:
    """Servers that report these roles: whether a standby, and the timeline."""

    async def role_of(server: Node) -> ReplicationState | None:
        if server.name not in roles:
            return None
        standby, timeline = roles[server.name]
        return ReplicationState(name=server.name, standby=standby, timeline=timeline)

    monkeypatch.setattr(replication, "role_of", role_of)


def test_of_two_primaries_the_one_of_the_later_timeline_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def leads(**roles: tuple[bool, int]) -> Leader | None:
        with_roles(monkeypatch, **roles)
        return asyncio.run(POSTGRES.leader((N1, N2), PAIR))

    assert leads(n1=(False, 1), n2=(True, 1)) == Leader("n1", 1)
    assert leads(n1=(False, 1), n2=(False, 2)) == Leader("n2", 2)
    assert leads(n2=(True, 1)) is None
    assert asyncio.run(POSTGRES.leader((N1,), {})) == Leader("n1")


@pytest.mark.parametrize(
    ("role", "ready"), [((False, 1), True), ((True, 3), True), ((True, 0), False), (None, False)]
)
def test_a_standby_is_ready_when_it_receives_the_log(
    role: tuple[bool, int] | None, ready: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_roles(monkeypatch, **({} if role is None else {"n2": role}))
    assert asyncio.run(ADVISORY.ready(N2, PAIR)) == ready


@pytest.mark.parametrize("role", [(False, 2), None])
def test_only_a_standby_is_promoted(
    role: tuple[bool, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_roles(monkeypatch, **({} if role is None else {"n2": role}))
    with pytest.raises(EnvironmentFailed, match="n2 is no standby that could be promoted"):
        asyncio.run(POSTGRES.fail_over(N1, (N1, N2), PAIR, FORCE))


@pytest.mark.parametrize(
    ("role", "handover", "force"),
    [
        ((True, 1), True, True),
        ((True, 0), False, True),
        ((False, 2), False, False),
        (None, False, False),
    ],
)
def test_a_handover_needs_a_standby_that_streams(
    role: tuple[bool, int] | None, handover: bool, force: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_roles(monkeypatch, **({} if role is None else {"n2": role}))
    for how, ready in ((HANDOVER, handover), (FORCE, force)):
        assert asyncio.run(POSTGRES.replaceable(N1, (N1, N2), PAIR, how)) is ready


def config(tmp_path: Path, node: Node, options: Mapping[str, str]) -> Mapping[str, str]:
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="r")
    servers = (N1, N2) if "replicas" in options else (N1,)
    given: Mapping[str, str] = json.loads(POSTGRES.command(node, servers, place, options).argv[-1])
    return given


def test_the_second_server_is_a_copy_of_the_first(tmp_path: Path) -> None:
    first, second = config(tmp_path, N1, SYNCED), config(tmp_path, N2, SYNCED)
    assert "copy_of" not in first and second["copy_of"] == N1.address
    assert f"host={N2.address} " in first["primary_conninfo"]
    assert "application_name=n2" in second["primary_conninfo"]
    assert first["synchronous_standby_names"] == "FIRST 1 (n2)"
    assert "synchronous_standby_names" not in config(tmp_path, N1, PAIR)
    assert "primary_conninfo" not in config(tmp_path, N1, {})


def test_a_former_primary_keeps_its_files_after_a_handover_only(tmp_path: Path) -> None:
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="r")
    files = tmp_path / "data" / "n1" / HERE
    files.mkdir(parents=True)
    (files.parent / "done").touch()
    POSTGRES.rejoin(N1, place, HANDOVER)
    assert (files / STANDBY).exists() and "copy_of" not in config(tmp_path, N1, PAIR)
    POSTGRES.rejoin(N1, place, FORCE)
    assert not any(files.parent.iterdir())
    assert config(tmp_path, N1, PAIR)["copy_of"] == N2.address


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"synchronous": "yes"}, "needs a standby: add --set replicas=1"),
        ({**SYNCED, "synchronous_commit": "off"}, "waits for nothing with synchronous_commit=off"),
        ({**PAIR, "via": "pgbouncer"}, "so it needs via=direct"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: Mapping[str, str], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        ADVISORY.promises(options)


def test_only_a_lease_on_a_synchronous_standby_survives_a_failover() -> None:
    def promised(
        system: PostgresSystem | SqlLease,
        options: Mapping[str, str],
        what: str = "mutual-exclusion",
    ) -> bool:
        return with_kinds(system.promises(options)).promised(what, ["manual-failover"])

    assert promised(POSTGRES, SYNCED) and promised(POSTGRES, SYNCED, "durable-grants")
    assert not promised(POSTGRES, PAIR) and not promised(POSTGRES, {})
    assert not promised(ADVISORY, SYNCED) and not promised(ADVISORY, PAIR)
    assert with_kinds(ADVISORY.promises(PAIR)).promised(
        "mutual-exclusion", ["kill", "pause", "partition"]
    )
    assert not with_kinds(ADVISORY.promises({**PAIR, "tokens": "sequence"})).promised(
        "token-order", ["manual-failover"]
    )


def test_mariadb_has_no_standby() -> None:
    with pytest.raises(UsageError, match="unknown option replicas"):
        MARIADB.promises(PAIR)


def setup(*addresses: str) -> ClientSetup:
    servers = [(f"n{n}", address) for n, address in enumerate(addresses, 1)]
    return ClientSetup(
        process=1,
        name="c1",
        servers=servers,
        lease_ns=1,
        options={},
        tell=lambda op, **rest: None,
    )


def test_a_session_is_opened_at_whichever_server_accepts_one() -> None:
    tried: list[str] = []

    async def connect(address: str) -> Session:
        tried.append(address)
        if address == "b":
            return Script()
        raise NoSession(f"{address} is a standby")

    async def story() -> None:
        servers = DatabaseServers(setup("a", "b"))
        for _ in range(20):
            await servers.open(connect)
        with pytest.raises(NoSession, match="a is a standby"):
            await DatabaseServers(setup("a")).open(connect)

    asyncio.run(story())
    assert tried.count("b") == 20 and 1 < tried.count("a") < 20
