"""Servers that already run: what is refused, and a relay between the clients and them."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.clusters.systems import relay
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import Node, Place
from holdfast.harness.plans.plan import Plan
from holdfast.planning import manifest, prepare

LISTED = {"running": "127.0.0.1:7001"}


def plan(**other: object) -> Plan:
    known: dict[str, object] = {"system": "redis", "nodes": 1, "backend": "local-proxy"}
    return Plan(**{**known, "options": LISTED, **other})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"backend": "local"}, "--servers: .* from --backend local-proxy only"),
        ({"options": {"running": "127.0.0.1"}}, "expected HOST:PORT for each server"),
        ({"options": {"running": "127.0.0.1:0"}}, "expected HOST:PORT for each server"),
        ({"options": {"running": "a:1,b:2"}}, "--servers lists 2 servers and --nodes 1"),
        ({"system": "redis-sentinel", "nodes": 5}, "redis-sentinel has not one port for each"),
        ({"nemeses": (("kill", {}),)}, "nemesis kill: running servers are not Holdfast's"),
        ({"nemeses": (("pause", {"target": "holder/leader"}),)}, "nemesis pause: running servers"),
        ({"nemeses": (("clock", {"target": "n1"}),)}, "nemesis clock: running servers are not"),
    ],
)
def test_what_cannot_be_done_to_servers_that_run_is_refused(
    other: dict[str, object], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        prepare.complete(plan(**other))


@pytest.mark.parametrize(
    "nemesis",
    [("pause", {"target": "holder"}), ("kill", {"target": "c1+c2"}), ("cancel", {}), ("stall", {})],
)
def test_faults_of_clients_remain(nemesis: tuple[str, dict[str, str]]) -> None:
    made = prepare.complete(plan(nemeses=(nemesis,)))
    assert made.faults and manifest.server_command(made) == relay.COMMAND
    assert manifest.server_command(plan(options={})) == ""


def test_each_relay_has_its_own_server(tmp_path: Path) -> None:
    nodes = [Node(name=f"n{n}", role="server", address=f"127.3.0.{n}") for n in (1, 2)]
    place = Place(run_id="r", run_dir=tmp_path, shared=[], label="r")
    options = {"running": "127.0.0.1:7001, [::1]:7002"}
    made = relay.command(nodes[1], nodes, place, options, 6379)
    assert json.loads(made.argv[-1]) == {
        "listen": "127.3.0.2", "port": 6379, "host": "::1", "to": 7002,
    }  # fmt: skip


Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def answered(handle: Handle) -> bytes:
    """What comes back through a relay from a server that does as a test says."""
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    to = server.sockets[0].getsockname()[1]
    relaying = asyncio.ensure_future(relay.serve("127.0.0.1", port, "127.0.0.1", to))
    try:
        async with asyncio.timeout(10):
            while True:
                try:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    break
                except ConnectionRefusedError:
                    await asyncio.sleep(0)
            writer.write(b"question")
            writer.write_eof()
            return await reader.read()
    finally:
        relaying.cancel()
        server.close()


def test_a_relay_forwards_both_ways_and_ends_with_the_server() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"answer to " + await reader.read())
        await writer.drain()
        writer.close()

    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    assert asyncio.run(answered(echo)) == b"answer to question"
    assert asyncio.run(answered(rude)) == b""
