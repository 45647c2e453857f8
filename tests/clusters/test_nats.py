"""The lock on NATS without a server: what errors mean, whose key it is, what servers are told."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.clusters.systems.nats.system import SYSTEM, _leader
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.operations import Grant, Mode, Op, Status
from holdfast.harness.core.ports import ClientSetup, Node, Place
from tests import needs
from tests.front.test_runs import every_fault_has_evidence, nothing_promised_is_violated, run

LEASE_NS = 2_000_000_000
GRANT = Grant(lock="l", attempt=7, token=3, ttl_ns=LEASE_NS, granted_at_ns=0)


def adapter() -> Any:
    """The client's module, with its library where it can find it."""
    sys.path.append(str(needs.libraries(SYSTEM.libraries)))
    return importlib.import_module("holdfast.clusters.systems.nats.client")


class Bucket:
    """One key of a bucket as its server keeps it, and the errors of the library."""

    def __init__(self, lost: int = 0) -> None:
        """lost: so many writes are done and never answered."""
        self.errors = adapter().nats.js.errors
        self.value, self.revision, self.log, self.lost = b"", 0, 0, lost

    def _write(self, value: bytes, last: int) -> int:
        if last != (self.revision if self.value else 0):
            if value:
                raise self.errors.KeyWrongLastSequenceError("wrong last sequence: 9")
            raise self.errors.BadRequestError(code=400, err_code=10071)
        self.log += 1
        self.value, self.revision = value, self.log if value else 0
        if self.lost:
            self.lost -= 1
            raise adapter().nats.errors.TimeoutError
        return self.revision

    async def create(self, key: str, value: bytes) -> int:
        return self._write(value, 0)

    async def update(self, key: str, value: bytes, last: int) -> int:
        return self._write(value, last)

    async def delete(self, key: str, last: int) -> None:
        self._write(b"", last)

    async def get(self, key: str) -> Any:
        if not self.value:
            raise self.errors.KeyNotFoundError
        return SimpleNamespace(value=self.value, revision=self.revision)


def lock(bucket: Bucket, told: list[Op] | None = None) -> Any:
    heard: list[Op] = [] if told is None else told
    setup = ClientSetup(
        process=1,
        name="c1",
        servers=(),
        lease_ns=LEASE_NS,
        options={},
        tell=lambda op, **rest: heard.append(op),
    )
    made = adapter().client(setup)
    made._bucket = bucket
    return made


async def taken(made: Any, attempt: int = 7) -> Any:
    return await made.acquire("l", attempt=attempt, ttl_ns=LEASE_NS, wait_ns=0, mode=Mode.EXCLUSIVE)


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("js.errors.NoStreamResponseError", Status.FAIL),
        ("js.errors.BadRequestError", Status.FAIL),
        ("js.errors.ServiceUnavailableError", Status.INFO),
        ("js.errors.ServerError", Status.INFO),
        ("errors.TimeoutError", Status.INFO),
        ("errors.ConnectionClosedError", Status.INFO),
        ("errors.OutboundBufferLimitError", Status.FAIL),
    ],
)
def test_only_what_is_sure_is_more_than_unknown(name: str, outcome: Status) -> None:
    error: Any = adapter().nats
    for part in name.split("."):
        error = getattr(error, part)
    answer = adapter()._answer(error())
    assert answer.outcome is outcome
    assert answer.error.startswith(error.__name__)


def test_the_revision_of_the_creation_is_the_token_and_a_held_key_is_refused() -> None:
    async def talk() -> None:
        mine = lock(Bucket())
        first = await taken(mine)
        assert (first.outcome, first.token, first.ttl_ns) == (Status.OK, 1, LEASE_NS)
        assert (await taken(mine, 8)).outcome is Status.FAIL
        assert (await mine.renew(GRANT, ttl_ns=LEASE_NS)).outcome is Status.OK
        assert (await mine.release(GRANT)).outcome is Status.OK
        assert (await mine.release(GRANT)).outcome is Status.NOT_OWNER
        assert (await taken(mine, 9)).token == 4

    asyncio.run(talk())


def test_a_lock_may_have_any_name() -> None:
    names = ["lock-1", "a b", "a=20b", "a%20b", "ä/b", "a.b", ".", "a~b", "a*b>c"]
    keys = [adapter().key_of(name) for name in names]
    assert all(re.fullmatch("[-/_=a-zA-Z0-9]+", key) for key in keys)
    assert len(set(keys)) == len(names) and keys[0] == "lock-1"


def test_a_key_of_somebody_else_is_neither_renewed_nor_deleted() -> None:
    async def talk() -> None:
        bucket = Bucket()
        mine = lock(bucket)
        await taken(mine)
        bucket.value, bucket.revision, bucket.log = b"8", 5, 5
        assert (await mine.renew(GRANT, ttl_ns=LEASE_NS)).outcome is Status.NOT_OWNER
        assert (await mine.release(GRANT)).outcome is Status.NOT_OWNER
        assert bucket.value == b"8"
        bucket.value = b""
        assert (await mine.renew(GRANT, ttl_ns=LEASE_NS)).outcome is Status.NOT_OWNER

    asyncio.run(talk())


def test_a_renewal_that_nobody_answered_does_not_cost_the_lock() -> None:
    async def talk() -> None:
        bucket = Bucket()
        mine = lock(bucket)
        await taken(mine)
        bucket.lost = 1
        assert (await mine.renew(GRANT, ttl_ns=LEASE_NS)).outcome is Status.INFO
        assert (await mine.renew(GRANT, ttl_ns=LEASE_NS)).outcome is Status.OK
        assert (await mine.release(GRANT)).outcome is Status.OK
        assert not bucket.value

    asyncio.run(talk())


def test_only_a_key_that_is_there_says_that_the_lock_is_held() -> None:
    told: list[Op] = []

    async def talk() -> None:
        bucket = Bucket()
        mine = lock(bucket, told)
        gone = adapter().nats.js.errors.NoStreamResponseError()
        answers = [gone, bucket.errors.KeyWrongLastSequenceError("wrong last sequence: 9"), None]

        async def create(key: str, value: bytes) -> int:
            error = answers.pop(0)
            if error is not None:
                raise error
            return 9

        bucket.create = create  # type: ignore[method-assign]
        won = await mine.acquire(
            "l", attempt=7, ttl_ns=LEASE_NS, wait_ns=LEASE_NS, mode=Mode.EXCLUSIVE
        )
        assert (won.outcome, won.token) == (Status.OK, 9)

    asyncio.run(talk())
    assert told == [Op.WAITING]


def test_a_cancellation_that_comes_with_the_answer_is_not_lost() -> None:
    async def talk() -> None:
        bucket = Bucket()
        mine = lock(bucket)
        await taken(mine)
        asked = asyncio.Event()

        async def update(key: str, value: bytes, last: int) -> int:
            asked.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(10)
            return 2

        bucket.update = update  # type: ignore[method-assign]
        renewal = asyncio.ensure_future(mine.renew(GRANT, ttl_ns=LEASE_NS))
        await asked.wait()
        renewal.cancel()
        with pytest.raises(asyncio.CancelledError):
            await renewal

    asyncio.run(talk())


def test_a_server_is_told_its_peers_only_where_it_has_some(tmp_path: Path) -> None:
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="r")
    nodes = [Node(name=f"n{n}", role="server", address=f"10.0.0.{n}") for n in (1, 2, 3)]
    alone, one = (
        json.loads(Path(SYSTEM.command(nodes[0], servers, place, {}).argv[-1]).read_text())
        for servers in (nodes[:1], nodes)
    )
    assert "cluster" not in alone and alone["listen"] == "10.0.0.1:4222"
    assert one["cluster"]["routes"] == [f"nats-route://10.0.0.{n}:6222" for n in (1, 2, 3)]
    near = [Node(name=f"n{n}", role="server", address=f"127.0.0.{n}") for n in (1, 2)]
    with pytest.raises(EnvironmentFailed, match="--nodes 1"):
        SYSTEM.command(near[0], near, place, {})
    with pytest.raises(UsageError, match="unknown option"):
        SYSTEM.promises({"replicas": "3"})


def test_who_leads_is_read_from_what_a_server_says() -> None:
    other = {"name": "KV_other", "cluster": {"leader": "n1"}}
    log = {"name": "KV_holdfast", "cluster": {"leader": "n2"}}
    assert _leader({"account_details": [{"stream_detail": [other, log]}]}) == "n2"
    assert _leader({"account_details": [{"stream_detail": [{**log, "cluster": None}]}]}) == ""
    assert _leader({}) == ""


@pytest.mark.real_server
def test_a_server_keeps_its_promises_under_pauses_and_deaths(tmp_path: Path) -> None:
    needs.namespaces()
    needs.binary("nats-server")
    words = ("--system", "nats-kv", "--lease", "1s", "--time", "9s", "--clients", "3")
    faults = "pause:target=holder,every=4s,for=2s,kill:target=one,every=4s,for=200ms"
    ran = run(tmp_path, *words, "--set", "lazy_pct=0", "--nemesis", faults, codes=(0, 3))
    nothing_promised_is_violated(ran)
    every_fault_has_evidence(ran, {"pause", "kill"})
    assert ran.verdict("mutual-exclusion") == "HOLDS"
    assert ran.verdicts["evidence"]["acquire"]["granted"] > 20
