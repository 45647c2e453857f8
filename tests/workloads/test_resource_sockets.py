"""The resource over real connections: what a client learns when one breaks, and a restart."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.client.resource_replies import Reply
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history import reader
from holdfast.harness.recording.phase import END, Phase
from holdfast.harness.recording.segments import Recorder
from holdfast.workloads.resource import client as client_module
from holdfast.workloads.resource.client import ResourceClient, connect
from holdfast.workloads.resource.server import LIMIT, Server, Store
from tests.front.aborted import wait_for

HOST = "127.0.0.1"
META = {"node": "resource", "processes": []}
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Work = Callable[[ResourceClient], Awaitable[list[Reply]]]


def over(serve: Serve, work: Work, monkeypatch: pytest.MonkeyPatch) -> list[Reply]:
    """What a client learns from a server with this behaviour."""

    async def run() -> list[Reply]:
        server = await asyncio.start_server(serve, HOST, 0, limit=LIMIT)
        monkeypatch.setattr(client_module, "PORT", server.sockets[0].getsockname()[1])
        async with server:
            return await asyncio.wait_for(work(connect(HOST)), 30)

    return asyncio.run(run())


async def write(client: ResourceClient, op: int, token: int = 5, **more: Any) -> Reply:
    return await client.write("db", op=op, attempt=op, token=token, **{"base": -1, **more})


def test_a_client_is_told_what_the_resource_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(client: ResourceClient) -> list[Reply]:
        read = await client.read("db", op=3, attempt=1, token=6)
        return [await write(client, 1), await write(client, 2), read, await write(client, 4)]

    with Recorder(tmp_path, "resource", META) as recorder:
        found = over(Server(Store("fenced"), recorder).serve, work, monkeypatch)
    assert found[0] == found[1] == found[3]
    assert found[0] == Reply(outcome=Status.FAIL, version=0, error="token 5 is older than 6")
    assert found[2] == Reply(outcome=Status.OK, version=0)
    rows = reader.load(tmp_path).history.rows
    assert rows["f"].tolist() == [Op.SERVED_READ, *[Op.SERVED_WRITE] * 3]


def test_an_idempotent_command_is_applied_once_whoever_sends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(client: ResourceClient) -> list[Reply]:
        other = connect(HOST)
        first, again = await write(client, 1, once=True), await write(other, 2, once=True)
        return [first, again, await write(client, 3)]

    with Recorder(tmp_path, "resource", META) as recorder:
        found = over(Server(Store("idempotent"), recorder).serve, work, monkeypatch)
    assert [one.version for one in found] == [1, 1, 2]


def test_calls_of_one_client_at_the_same_time_get_their_own_replies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def echo(lines: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await lines.readline():
            op = json.loads(line)["op"]
            writer.write(json.dumps({"ok": True, "version": op, "error": ""}).encode() + b"\n")
        writer.close()

    async def work(client: ResourceClient) -> list[Reply]:
        return list(await asyncio.gather(*(write(client, op) for op in range(20))))

    assert [one.version for one in over(echo, work, monkeypatch)] == list(range(20))


def test_without_a_server_a_write_certainly_had_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as taken:
        monkeypatch.setattr(client_module, "PORT", taken.getsockname()[1])
    reply = asyncio.run(write(connect(HOST), 1))
    assert (reply.outcome, reply.version) == (Status.FAIL, -1)
    assert reply.error.startswith("ConnectionRefusedError: ")


BROKEN = {
    "closed": (b"", "IncompleteReadError: "),
    "cut": (b'{"ok": true', "IncompleteReadError: "),
    "garbage": (b"what\n", "JSONDecodeError: "),
    "other": (b'{"ok": true, "version": 1}\n', "KeyError: 'error'"),
    "no number": (b'{"ok": true, "version": "x", "error": ""}\n', "ValueError: "),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_after_a_broken_reply_the_outcome_is_unknown_and_the_next_call_is_on_a_new_connection(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, error = BROKEN[kind]
    answers = [text, b'{"ok": true, "version": 8, "error": ""}\n']

    async def once(lines: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await lines.readline()
        writer.write(answers.pop(0))
        writer.close()

    async def work(client: ResourceClient) -> list[Reply]:
        return [await write(client, 1), await write(client, 2)]

    first, second = over(once, work, monkeypatch)
    assert (first.outcome, first.version) == (Status.INFO, -1)
    assert first.error.startswith(error)
    assert second == Reply(outcome=Status.OK, version=8)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_late_reply_is_never_taken_for_that_of_the_next_call(
    cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, given_up = asyncio.Event(), asyncio.Event()

    async def late(lines: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        op = json.loads(await lines.readline())["op"]
        if op == 1:
            seen.set()
            await given_up.wait()
        writer.write(json.dumps({"ok": True, "version": op, "error": ""}).encode() + b"\n")
        writer.close()

    async def work(client: ResourceClient) -> list[Reply]:
        asked = asyncio.ensure_future(write(client, 1))
        await seen.wait()
        found = []
        if cancelled:
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        else:
            found.append(await asked)
        given_up.set()
        return [*found, await write(client, 2)]

    monkeypatch.setattr(client_module, "TIMEOUT_S", 60 if cancelled else 0.05)
    *first, second = over(late, work, monkeypatch)
    assert second == Reply(outcome=Status.OK, version=2)
    assert [one.outcome for one in first] == [] if cancelled else [Status.INFO]


@pytest.mark.parametrize(
    "garbage", [b"what\n", b"[]\n", b"{}\n", b'"x"\n', b"\xff\n", b"x" * LIMIT]
)
def test_garbage_closes_its_own_connection_only(
    tmp_path: Path, garbage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(client: ResourceClient) -> list[Reply]:
        await write(client, 1)
        other, bad = await asyncio.open_connection(HOST, client_module.__dict__["PORT"])
        bad.write(garbage + b"x" * 10 + b"\n")
        assert await other.read() == b"", "closed without a reply"
        bad.close()
        return [await write(client, 2)]

    with Recorder(tmp_path, "resource", META) as recorder:
        (after,) = over(Server(Store("fenced"), recorder).serve, work, monkeypatch)
    assert after.version == 2


def test_a_killed_resource_knows_its_highest_token_and_its_writes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes, one after the other, as the driver starts them; the first is SIGKILLed."""
    # The port is fixed, so each process that tests has an address of its own.
    pid = os.getpid()
    address = f"127.{pid >> 16 & 127}.{pid >> 8 & 255}.{pid & 255 or 1}"
    phase, history = Phase.create(tmp_path / "phase"), tmp_path / "history"
    history.mkdir()

    def started(n: int) -> subprocess.Popen[str]:
        config = {
            "address": address, "mode": "fenced", "node": "resource", "writer": f"resource-{n}",
            "earlier": [f"resource-{m}" for m in range(n)], "history": str(history),
            "phase": str(tmp_path / "phase"), "over_ns": 60 * 10**9,
        }  # fmt: skip
        path = tmp_path / f"{n}.json"
        path.write_text(json.dumps(config))
        argv = ["-S", "-P", "-m", "holdfast.workloads.resource.process", str(path)]
        return subprocess.Popen(
            [sys.executable, *argv], text=True, stdout=subprocess.PIPE,
            env={"PYTHONPATH": ":".join(sys.path)},
        )  # fmt: skip

    async def work(tokens: tuple[int, ...]) -> list[Reply]:
        client = connect(address)
        return [await write(client, token, token=token) for token in tokens]

    def ready() -> bool:
        return asyncio.run(work((1,)))[0].outcome is Status.OK

    def repeated() -> bool:
        """Whether the first write, which is sent again, has the version that it had."""
        return asyncio.run(work((1,)))[0] == Reply(outcome=Status.OK, version=1)

    with started(0) as first:
        wait_for(ready, 30, "the resource does not answer")
        assert [one.version for one in asyncio.run(work((5, 9)))] == [2, 3]
        first.kill()
    with started(1) as second:
        wait_for(repeated, 30, "the restarted resource does not answer")
        found = asyncio.run(work((9, 8, 10)))
        phase.set(END)
        assert second.wait(30) == 0
    assert [(one.outcome, one.version) for one in found] == [
        (Status.OK, 3), (Status.FAIL, 3), (Status.OK, 4),
    ]  # fmt: skip
