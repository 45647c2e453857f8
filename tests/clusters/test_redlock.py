"""Redlock and the Redis wire format: votes into outcomes, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.redis.resp import Link, NoAnswer, NotSent, Refused, decoded, encoded
from holdfast.clusters.systems.redlock import client as redlock
from holdfast.clusters.systems.redlock.system import SYSTEM
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from holdfast.harness.core.ports import ClientSetup

LEASE_NS = 1_000_000_000
WORDS: dict[str, Any] = {
    "ok": "OK",
    "held": None,
    "one": 1,
    "zero": 0,
    "refused": Refused("LOADING"),
    "silent": NoAnswer("no answer in time"),
    "away": NotSent("no connection in time"),
}


class Server:
    """Answers each command with the next word of its script, the last one for ever."""

    def __init__(self, script: Sequence[str]) -> None:
        self.script = list(script)
        self.asked: list[tuple[str | int, ...]] = []

    async def ask(self, *words: str | int, within_s: float) -> Any:
        self.asked.append(words)
        said = WORDS[self.script.pop(0) if len(self.script) > 1 else self.script[0]]
        if isinstance(said, Exception):
            raise said
        return said

    def close(self) -> None:
        """Nothing is open."""


def voting(*scripts: str) -> tuple[redlock.Redlock, list[Server], list[Op]]:
    """A client of one scripted server per argument, words separated by spaces."""
    told: list[Op] = []
    setup = ClientSetup(
        process=1,
        name="c1",
        servers=[(f"n{n}", "") for n in range(len(scripts))],
        lease_ns=LEASE_NS,
        options={},
        tell=lambda op, **rest: told.append(op),
    )
    made = redlock.client(setup)
    servers = [Server(script.split()) for script in scripts]
    made._links = servers  # type: ignore[assignment]
    return made, servers, told


def acquired(made: redlock.Redlock, wait_ns: int = 0) -> Answer:
    return asyncio.run(
        made.acquire("l", attempt=7, ttl_ns=LEASE_NS, wait_ns=wait_ns, mode=Mode.EXCLUSIVE)
    )


GRANT = Grant(lock="l", attempt=7, token=-1, ttl_ns=LEASE_NS, granted_at_ns=0)


@pytest.mark.parametrize(
    ("scripts", "outcome"),
    [
        (("ok", "ok", "ok", "held", "away"), Status.OK),
        (("ok one", "ok one", "held zero", "held zero", "held zero"), Status.FAIL),
        (("held", "held", "held", "held", "held"), Status.FAIL),
        (("away", "away", "away", "away", "away"), Status.FAIL),
        (("refused", "refused", "refused", "ok one", "ok one"), Status.FAIL),
        (("silent", "silent", "silent one", "ok one", "held zero"), Status.FAIL),
        (("silent", "silent", "silent", "ok one", "held zero"), Status.INFO),
    ],
)
def test_a_quorum_is_more_than_half_and_what_may_stay_behind_is_unknown(
    scripts: tuple[str, ...], outcome: Status
) -> None:
    assert acquired(voting(*scripts)[0]).outcome is outcome


def test_a_lost_round_is_given_back_everywhere_under_its_own_value() -> None:
    made, servers, told = voting(*["ok one ok one"] * 2, *["held zero"] * 3)
    assert acquired(made, wait_ns=100_000_000).outcome is Status.FAIL
    assert told[0] is Op.WAITING
    first = 7 * redlock.ROUNDS
    for server in servers:
        asked, given_back, again = server.asked[:3]
        assert asked[:3] == ("SET", "l", first)
        assert given_back[0] == "EVAL" and given_back[-1] == first
        assert again[:3] == ("SET", "l", first + 1)


def test_a_quorum_that_comes_too_late_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redlock, "validity_ns", lambda ttl_ns: 0)
    made, servers, _ = voting(*["ok one"] * 3)
    assert acquired(made).outcome is Status.FAIL
    assert all(server.asked[-1][0] == "EVAL" for server in servers)


def test_validity_is_what_the_published_constants_leave() -> None:
    assert redlock.validity_ns(10_000_000_000) == 10_000_000_000 - 100_000_000 - 2_000_000


@pytest.mark.parametrize(
    ("scripts", "outcome"),
    [
        (("one", "one", "one", "zero", "silent"), Status.OK),
        (("one", "one", "zero", "zero", "zero"), Status.NOT_OWNER),
        (("one", "one", "silent", "zero", "zero"), Status.INFO),
        (("away", "away", "away", "one", "one"), Status.INFO),
    ],
)
def test_renewals_and_releases_need_a_quorum(scripts: tuple[str, ...], outcome: Status) -> None:
    renewed = asyncio.run(voting(*scripts)[0].renew(GRANT, ttl_ns=LEASE_NS))
    assert renewed.outcome is outcome
    assert asyncio.run(voting(*scripts)[0].release(GRANT)).outcome is outcome


def test_promises_shrink_with_what_the_servers_keep() -> None:
    assert with_kinds(SYSTEM.promises({})).promised(
        "mutual-exclusion", ["partition", "pause", "kill"]
    )
    assert not with_kinds(SYSTEM.promises({})).promised("mutual-exclusion", ["clock"])
    assert not with_kinds(SYSTEM.promises({"persistence": "none"})).promised(
        "mutual-exclusion", ["kill"]
    )
    with pytest.raises(UsageError, match="invalid persistence=rdb: expected one of always"):
        SYSTEM.promises({"persistence": "rdb"})


def test_the_wire_format_is_that_of_redis() -> None:
    assert encoded(("SET", "k", 7)) == b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n7\r\n"

    async def read() -> list[Any]:
        reader = asyncio.StreamReader()
        reader.feed_data(b"+PONG\r\n:12\r\n$-1\r\n$4\r\na\r\nb\r\n-ERR no\r\n")
        reader.feed_data(b"*2\r\n$1\r\na\r\n:7\r\n%1\r\n")
        found: list[Any] = [await decoded(reader) for _ in range(6)]
        with pytest.raises(ValueError, match="kind"):
            await decoded(reader)
        return found

    *answers, refused, parts = asyncio.run(read())
    assert answers == ["PONG", 12, None, "a\r\nb"]
    assert parts == ["a", 7]
    assert isinstance(refused, Refused) and str(refused) == "ERR no"


def test_a_late_answer_is_not_taken_for_the_next_one() -> None:
    async def talk() -> tuple[Any, ...]:
        allowed = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"FIRST\r\n")
            await allowed.wait()
            writer.write(b"+first\r\n")
            await reader.readuntil(b"SECOND\r\n")
            writer.write(b"+second\r\n")
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        link = Link("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(NoAnswer):
            await link.ask("FIRST", within_s=0.05)
        allowed.set()
        second = await link.ask("SECOND", within_s=5)
        link.close()
        server.close()
        with pytest.raises(NotSent):
            await link.ask("THIRD", within_s=5)
        return (second,)

    assert asyncio.run(talk()) == ("second",)
