"""What a client did is on record, whatever the service and its library did to it."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.client import context as client_module
from holdfast.harness.client.context import Context, Dependencies
from holdfast.harness.client.resource_replies import Reply
from holdfast.harness.core.case import History
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.operations import Answer, Grant, Mode, Op, Status
from holdfast.harness.history import reader
from holdfast.harness.recording.phase import GO
from holdfast.harness.recording.segments import Recorder

Act = Callable[[], Answer]


class Lock:
    """A lock client that does what a test says."""

    def __init__(self, act: Callable[[], Coroutine[Any, Any, Answer]]) -> None:
        self._act = act

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        return await self._act()

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        return Answer(outcome=Status.OK, ttl_ns=ttl_ns)

    async def release(self, grant: Grant) -> Answer:
        return Answer(outcome=Status.NOT_OWNER, error="gone")


class BlockingLock:
    """The same without await; remembers on which thread it was called."""

    blocking = True

    def __init__(self, act: Act) -> None:
        self._act = act
        self.threads: set[str] = set()

    def open(self) -> None:
        self.threads.add(threading.current_thread().name)

    def close(self) -> None: ...

    def acquire(self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode) -> Answer:
        self.threads.add(threading.current_thread().name)
        return self._act()

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        return Answer(outcome=Status.OK)

    def release(self, grant: Grant) -> Answer:
        return Answer(outcome=Status.OK)


class Register:
    """A resource that accepts what a test says."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.names: list[int] = []

    async def read(self, key: str, *, op: int, attempt: int, token: int) -> Reply:
        self.names.append(op)
        return self.reply

    async def write(
        self, key: str, *, op: int, attempt: int, token: int, base: int, once: bool = False
    ) -> Reply:
        self.names.append(op)
        return self.reply


GRANTED = Answer(outcome=Status.OK, token=4, ttl_ns=SECOND)


async def granted() -> Answer:
    return GRANTED


def record(
    directory: Path,
    lock: Lock | BlockingLock,
    story: Callable[[Context], Coroutine[Any, Any, None]],
    resource: Register | None = None,
    **other: Any,
) -> History:
    """What a client recorded in a story; other: parts of it that are not the usual ones."""
    with Recorder(directory, "c1", {"node": "c1", "processes": [3]}) as recorder:
        usual: dict[str, Any] = {"phase": lambda: GO, "die": lambda: None, "lease_ns": SECOND}
        parts = Dependencies(
            lock_client=lock,
            resource=resource or Register(Reply(outcome=Status.OK, version=1)),
            recorder=recorder,
            process=3,
            rng=random.Random(1),
            options={},
            **(usual | other),
        )

        async def tell() -> None:
            context = Context(parts, ("db",))
            await context.open()
            await story(context)
            await context.close()

        asyncio.run(tell())
    return reader.load(directory).history


def statuses(found: History, *ops: Op) -> list[Status]:
    return [Status(int(found.rows[n]["status"])) for n in found.of(*ops)]


def test_a_grant_carries_its_token_attempt_and_lease(tmp_path: Path) -> None:
    async def story(ctx: Context) -> None:
        grant = await ctx.acquire("db", wait_ns=5)
        assert grant is not None
        assert (grant.token, grant.ttl_ns, grant.attempt >> 32) == (4, SECOND, 3)
        assert not await ctx.release(grant)

    found = record(tmp_path, Lock(granted), story)
    acquire, release = found.rows
    assert (acquire["token"], acquire["res"], acquire["aux"]) == (4, SECOND, 5)
    assert acquire["attempt"] == release["attempt"]
    assert statuses(found, Op.RELEASE) == [Status.NOT_OWNER]


def test_an_error_that_no_table_lists_is_unknown(tmp_path: Path) -> None:
    async def broken() -> Answer:
        raise ZeroDivisionError("in the library")

    async def story(ctx: Context) -> None:
        assert await ctx.try_acquire("db") is None

    found = record(tmp_path, Lock(broken), story)
    assert statuses(found, Op.TRY) == [Status.INFO]
    assert "ZeroDivisionError" in found.strings[found.rows[0]["err"]]


def test_a_call_that_never_returns_is_given_up_as_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "GUARD_NS", 20 * MILLISECOND)

    async def hung() -> Answer:
        await asyncio.Event().wait()
        return GRANTED

    async def story(ctx: Context) -> None:
        assert await ctx.acquire("db", wait_ns=0) is None

    assert statuses(record(tmp_path, Lock(hung), story), Op.ACQUIRE) == [Status.INFO]


def test_a_blocking_library_has_one_thread_of_its_own(tmp_path: Path) -> None:
    lock = BlockingLock(lambda: GRANTED)

    async def story(ctx: Context) -> None:
        for _ in range(3):
            assert await ctx.try_acquire("db") is not None

    assert statuses(record(tmp_path, lock, story), Op.TRY) == [Status.OK] * 3
    assert len(lock.threads) == 1
    assert threading.current_thread().name not in lock.threads


def test_a_blocking_call_given_up_is_still_completed_when_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "GUARD_NS", 20 * MILLISECOND)
    may_return = threading.Event()

    def slow() -> Answer:
        may_return.wait(5)
        return GRANTED

    async def story(ctx: Context) -> None:
        assert await ctx.try_acquire("db") is None
        may_return.set()
        assert await ctx.try_acquire("db") is not None

    assert statuses(record(tmp_path, BlockingLock(slow), story), Op.TRY) == [Status.OK] * 2


def test_a_notice_of_loss_ends_the_renewing(tmp_path: Path) -> None:
    async def story(ctx: Context) -> None:
        grant = await ctx.acquire("db", wait_ns=0)
        assert grant is not None
        async with ctx.renewing(grant):
            await ctx.sleep(5 * MILLISECOND)
            ctx.tell(Op.LOST, attempt=grant.attempt, lock="db", text="expired")
        assert ctx.lost(grant)

    found = record(tmp_path, Lock(granted), story)
    (lost,) = found.of(Op.LOST)
    assert found.strings[found.rows[lost]["res"]] == "expired"
    assert statuses(found, Op.RENEW) == [Status.OK]


def test_a_closed_session_loses_everything_it_held(tmp_path: Path) -> None:
    async def story(ctx: Context) -> None:
        grant = await ctx.acquire("db", wait_ns=0)
        assert grant is not None
        ctx.tell(Op.CLOSED, attempt=0, lock="", text="connection reset")
        assert ctx.lost(grant)

    record(tmp_path, Lock(granted), story)


def test_who_wants_to_hear_of_grants_and_losses_is_called(tmp_path: Path) -> None:
    heard: list[tuple[str, int]] = []

    async def story(ctx: Context) -> None:
        ctx.claims.on_acquired(lambda grant: heard.append(("acquired", grant.attempt & 255)))
        ctx.claims.on_lost(lambda grant: heard.append(("lost", grant.attempt & 255)))
        first, second, third = [await ctx.acquire("db", wait_ns=0) for _ in range(3)]
        assert first is not None
        assert second is not None
        assert third is not None
        await ctx.release(first)
        for _ in range(2):
            ctx.tell(Op.LOST, attempt=second.attempt, lock="db", text="expired")
        ctx.tell(Op.CLOSED, attempt=0, lock="", text="connection reset")

    record(tmp_path, Lock(granted), story)
    assert heard == [*(("acquired", n) for n in (1, 2, 3)), ("lost", 2), ("lost", 3)]


def test_a_loss_is_not_told_before_its_grant(tmp_path: Path) -> None:
    heard: list[str] = []
    contexts: list[Context] = []

    async def lost_on_the_way() -> Answer:
        contexts[0].tell(Op.LOST, attempt=3 << 32 | 1, lock="db", text="expired")
        return GRANTED

    async def story(ctx: Context) -> None:
        contexts.append(ctx)
        ctx.claims.on_acquired(lambda grant: heard.append("acquired"))
        ctx.claims.on_lost(lambda grant: heard.append("lost"))
        grant = await ctx.acquire("db", wait_ns=0)
        assert grant is not None
        assert ctx.lost(grant)

    record(tmp_path, Lock(lost_on_the_way), story)
    assert heard == ["acquired", "lost"]


def test_a_refused_acquire_is_told_to_nobody(tmp_path: Path) -> None:
    heard: list[Grant] = []

    async def refused() -> Answer:
        return Answer(outcome=Status.FAIL, error="held")

    async def story(ctx: Context) -> None:
        ctx.claims.on_acquired(heard.append)
        ctx.claims.on_lost(heard.append)
        assert await ctx.try_acquire("db") is None
        ctx.tell(Op.CLOSED, attempt=0, lock="", text="connection reset")

    record(tmp_path, Lock(refused), story)
    assert heard == []


def test_a_write_names_itself_by_process_and_row(tmp_path: Path) -> None:
    resource = Register(Reply(outcome=Status.FAIL, version=9, error="stale"))

    async def story(ctx: Context) -> None:
        grant = await ctx.acquire("db", wait_ns=0)
        assert grant is not None
        assert await ctx.write(grant, base=8) == -1

    found = record(tmp_path, Lock(granted), story, resource)
    (write,) = found.of(Op.WRITE)
    row = found.rows[write]
    assert resource.names == [3 << 32 | int(row["row"])]
    assert (row["arg"], row["res"], row["token"], row["status"]) == (8, 9, 4, Status.FAIL)


def test_a_call_that_its_caller_cancels_is_over_and_unknown(tmp_path: Path) -> None:
    async def never() -> Answer:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody answers")

    async def story(ctx: Context) -> None:
        task = asyncio.ensure_future(ctx.acquire("db", wait_ns=SECOND))
        while not task.done():
            await asyncio.wait([task], timeout=0.01)
            task.cancel()

    (acquire,) = record(tmp_path, Lock(never), story).rows
    assert Status(int(acquire["status"])) is Status.INFO
    assert acquire["t_ret"] > acquire["t_inv"]
