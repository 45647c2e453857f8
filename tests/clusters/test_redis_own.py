"""Our own way of speaking to Redis, before a server that a test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.clusters.systems.redis import native_client
from holdfast.clusters.systems.redis.lean_connection import whole
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import NO_TOKEN, Answer, Grant, Mode, Status
from holdfast.harness.core.ports import ClientSetup

Says = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.mark.parametrize(
    ("said", "is_whole"),
    [
        (b"+OK\r\n", True),
        (b"-ERR no\r\n", True),
        (b":17\r\n", True),
        (b"$-1\r\n", True),
        (b"$3\r\nabc\r\n", True),
        (b"$3\r\n", False),
        (b"$2\r\n\r\n\r\n", True),
        (b"$4\r\n\r\n\r\n", False),
        (b"+O", False),
    ],
)
def test_an_answer_is_taken_when_it_is_whole(said: bytes, is_whole: bool) -> None:
    assert whole(said) is is_whole


def setup() -> ClientSetup:
    return ClientSetup(
        process=1,
        name="c1",
        servers=(("n1", "127.0.0.1"),),
        lease_ns=SECOND,
        options={},
        tell=lambda *args, **kwargs: None,
    )


def outcome(monkeypatch: pytest.MonkeyPatch, says: Says, what: str = "acquire") -> Answer:
    """What one call comes to before a server that says so to its question."""

    async def run() -> Answer:
        server = await asyncio.start_server(says, "127.0.0.1", 0)
        monkeypatch.setattr(native_client, "PORT", server.sockets[0].getsockname()[1])
        monkeypatch.setattr(native_client, "ANSWER_WITHIN_S", 0.3)
        lock = native_client.OwnRedisLock(setup())
        if what == "acquire":
            mode = Mode.EXCLUSIVE
            answer = await lock.acquire("db", attempt=7, ttl_ns=SECOND, wait_ns=0, mode=mode)
        else:
            grant = Grant(lock="db", attempt=7, token=-1, ttl_ns=SECOND, granted_at_ns=0)
            answer = await lock.release(grant)
        await lock.close()
        server.close()
        return answer

    return asyncio.run(run())


def saying(*parts: bytes) -> Says:
    async def says(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4096)
        for part in parts:
            writer.write(part)
            await asyncio.sleep(0.01)
        await reader.read()
        writer.close()

    return says


async def hanging_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(4096)
    writer.close()


@pytest.mark.parametrize(
    ("says", "what", "wanted"),
    [
        (saying(b":", b"0\r\n"), "acquire", Status.OK),
        (saying(b":-1\r\n"), "acquire", Status.FAIL),
        (saying(b"+O", b"K\r\n"), "acquire", Status.OK),
        (saying(b"$-1\r\n"), "acquire", Status.FAIL),
        (saying(b"-LOADING not yet\r\n"), "acquire", Status.FAIL),
        (saying(), "acquire", Status.INFO),
        (hanging_up, "acquire", Status.INFO),
        (saying(b":1\r\n"), "release", Status.OK),
        (saying(b":0\r\n"), "release", Status.NOT_OWNER),
        (hanging_up, "release", Status.INFO),
    ],
)
def test_what_a_server_says_has_its_meaning(
    monkeypatch: pytest.MonkeyPatch, says: Says, what: str, wanted: Status
) -> None:
    answer = outcome(monkeypatch, says, what)
    assert (answer.outcome, answer.token) == (wanted, NO_TOKEN)


def test_every_question_has_its_own_time_though_one_timer_serves_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.read(4096)
            await asyncio.sleep(1.6)
            writer.write(b":0\r\n")
        await reader.read()
        writer.close()

    async def run() -> list[Status]:
        server = await asyncio.start_server(slow, "127.0.0.1", 0)
        monkeypatch.setattr(native_client, "PORT", server.sockets[0].getsockname()[1])
        monkeypatch.setattr(native_client, "ANSWER_WITHIN_S", 3.0)
        lock = native_client.OwnRedisLock(setup())
        grant = Grant(lock="db", attempt=7, token=-1, ttl_ns=SECOND, granted_at_ns=0)
        came = [(await lock.release(grant)).outcome for _ in range(2)]
        await lock.close()
        server.close()
        return came

    assert asyncio.run(run()) == [Status.NOT_OWNER, Status.NOT_OWNER]
