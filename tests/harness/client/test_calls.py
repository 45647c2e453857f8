"""Calls of a client at their edges: cancelled, repeated, timestamped, in a thread, unrecorded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from holdfast.harness.client.context import Context
from holdfast.harness.client.resource_replies import Reply, answered, asked
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.operations import (
    CANCELLED,
    LEFT,
    NO_TOKEN,
    ONCE,
    Answer,
    Grant,
    Op,
    Stamped,
    Status,
)
from holdfast.harness.core.ports import CALL, CLIENT
from holdfast.harness.recording.phase import END, GO, PREPARE, STOP
from tests.harness.test_client import (
    GRANTED,
    BlockingLock,
    Lock,
    Register,
    granted,
    record,
    statuses,
)

HELD = Grant(lock="db", attempt=3 << 32 | 1, token=4, ttl_ns=SECOND, granted_at_ns=0)
WITHIN_S = 20.0


class Renewed(Lock):
    """A client whose leases are renewed; `enough` is set with the last of some renewals."""

    def __init__(self, count: int) -> None:
        super().__init__(granted)
        self.left, self.enough = count, asyncio.Event()

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        self.left -= 1
        if self.left == 0:
            self.enough.set()
        return Answer(outcome=Status.OK, ttl_ns=ttl_ns)


def test_a_lease_is_renewed_at_once_and_then_for_each_duration_in_turn(tmp_path: Path) -> None:
    lock = Renewed(5)

    async def story(ctx: Context) -> None:
        assert await ctx.renew(HELD)
        async with ctx.renewing(HELD, every_ns=[MILLISECOND], ttls_ns=[10, 20, 30]):
            await asyncio.wait_for(lock.enough.wait(), WITHIN_S)

    found = record(tmp_path, lock, story)
    assert found.rows["arg"].tolist() == [SECOND, 10, 20, 30, 10]
    assert {*found.rows["f"]} == {Op.RENEW} and {*found.rows["attempt"]} == {HELD.attempt}


def test_a_lease_is_renewed_every_third_of_it_by_default(tmp_path: Path) -> None:
    slept: list[int] = []
    lock = Renewed(3)

    async def story(ctx: Context) -> None:
        async def sleep(span_ns: int) -> None:
            slept.append(span_ns)
            await asyncio.sleep(0)

        ctx.sleep = sleep  # type: ignore[method-assign]
        async with ctx.renewing(HELD):
            await asyncio.wait_for(lock.enough.wait(), WITHIN_S)

    found = record(tmp_path, lock, story, lease_ns=300)
    assert {*found.rows["arg"].tolist()} == {300} and {*slept} == {100}


class Swallowing(Lock):
    """A client on `asyncio.wait_for`, which returns a response that meets the cancellation."""

    def __init__(self, losses: int) -> None:
        super().__init__(granted)
        self.renewals, self.losses = 0, losses
        self.sent = asyncio.Event()
        self.response: asyncio.Future[None] | None = None

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        self.renewals += 1
        assert self.renewals < 50, "renewed although its caller is gone"
        self.response = asyncio.get_running_loop().create_future()
        self.sent.set()
        await asyncio.wait_for(self.response, WITHIN_S)
        for _ in range(self.losses):
            # What some libraries do behind the response: any error is tried again.
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(asyncio.Event().wait(), WITHIN_S)
        return Answer(outcome=Status.OK, ttl_ns=ttl_ns)

    def respond(self) -> None:
        if self.response is not None and not self.response.done():
            self.response.set_result(None)


@pytest.mark.parametrize("losses", [0, 1, 2])
def test_a_cancellation_that_meets_the_response_ends_the_renewals(
    tmp_path: Path, losses: int
) -> None:
    lock = Swallowing(losses)

    async def story(ctx: Context) -> None:
        async with asyncio.timeout(WITHIN_S):
            async with ctx.renewing(HELD, every_ns=[MILLISECOND]):
                await lock.sent.wait()
                lock.respond()
        assert lock.renewals == 1
        assert len(asyncio.all_tasks()) == 1

    record(tmp_path, lock, story)


def test_who_is_cancelled_while_its_renewals_end_is_cancelled(tmp_path: Path) -> None:
    lock, ended = Swallowing(0), list[bool]()

    async def section(ctx: Context, leave: asyncio.Event) -> None:
        async with ctx.renewing(HELD):
            await leave.wait()
        ended.append(True)

    async def story(ctx: Context) -> None:
        leave = asyncio.Event()
        task = asyncio.ensure_future(section(ctx, leave))
        await lock.sent.wait()
        leave.set()
        await asyncio.sleep(0)  # its renewal is cancelled now, and not done
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    record(tmp_path, lock, story)
    assert not ended


def test_a_release_that_a_fault_cancels_is_sent_again(tmp_path: Path) -> None:
    class Hanging(Lock):
        released = 0

        async def release(self, grant: Grant) -> Answer:
            self.released += 1
            if self.released == 1:
                await asyncio.Event().wait()
            return Answer(outcome=Status.OK)

    async def story(ctx: Context) -> None:
        ctx.guard.cancel_calls(1, after_s=0.0, within_s=WITHIN_S, told=lambda ran_s: None)
        assert await ctx.release(HELD)

    found = record(tmp_path, Hanging(granted), story)
    assert statuses(found, Op.RELEASE) == [Status.INFO, Status.OK]
    assert found.strings[int(found.rows[0]["err"])] == CANCELLED


def test_a_call_that_its_caller_cancels_is_over_before_the_caller_goes_on(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def hung() -> Answer:
        begun.set()
        await asyncio.Event().wait()
        return GRANTED

    async def story(ctx: Context) -> None:
        work = asyncio.ensure_future(ctx.try_acquire("db"))
        await asyncio.wait_for(begun.wait(), WITHIN_S)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert await ctx.release(HELD) is False

    found = record(tmp_path, Lock(hung), story)
    assert [row["f"] for row in found.rows] == [Op.TRY, Op.RELEASE]
    assert found.strings[int(found.rows[0]["err"])] == "cancelled by its caller"
    assert found.rows[0]["t_ret"] <= found.rows[1]["t_inv"]


class Slow(BlockingLock):
    """A blocking client whose acquire lasts until a test lets it return."""

    def __init__(self) -> None:
        super().__init__(self._wait)
        self.begun, self.may_return = threading.Event(), threading.Event()

    def _wait(self) -> Answer:
        self.begun.set()
        assert self.may_return.wait(WITHIN_S)
        return GRANTED


def test_a_blocking_call_that_its_caller_cancels_ends_with_its_own_outcome(tmp_path: Path) -> None:
    lock = Slow()

    async def story(ctx: Context) -> None:
        work = asyncio.ensure_future(ctx.try_acquire("db"))
        assert await asyncio.to_thread(lock.begun.wait, WITHIN_S)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        lock.may_return.set()
        assert await ctx.release(HELD), "the next call of the thread"

    found = record(tmp_path, lock, story)
    assert statuses(found, Op.TRY) == [Status.OK] and found.rows[0]["token"] == GRANTED.token


def test_what_a_blocking_adapter_raises_or_leaves_to_await_is_unknown(tmp_path: Path) -> None:
    async def coroutine() -> Answer:
        return GRANTED

    def wrong() -> Answer:
        made = coroutine()
        made.close()
        return made  # type: ignore[return-value]

    def broken() -> Answer:
        raise ZeroDivisionError("in the library")

    for n, (act, why) in enumerate(
        [
            (wrong, "AssertionError: a blocking adapter answers without await"),
            (broken, "ZeroDivisionError: in the library"),
        ]
    ):

        async def story(ctx: Context) -> None:
            assert await ctx.try_acquire("db") is None

        folder = tmp_path / str(n)
        folder.mkdir()
        found = record(folder, BlockingLock(act), story)
        (row,) = found.rows
        assert (row["status"], found.strings[int(row["err"])]) == (Status.INFO, why)


def test_a_blocking_client_opens_and_closes_in_the_thread_of_its_calls(tmp_path: Path) -> None:
    class Closing(BlockingLock):
        def close(self) -> None:
            self.threads.add(threading.current_thread().name)
            raise ConnectionResetError("the service is gone already")

    lock = Closing(lambda: GRANTED)

    async def story(ctx: Context) -> None:
        assert ctx.thread is not None
        assert await ctx.try_acquire("db") is not None

    record(tmp_path, lock, story)
    assert [name.rpartition("_")[0] for name in lock.threads] == ["client-3"]


@pytest.mark.parametrize("blocking", [True, False])
def test_an_error_of_opening_reaches_the_worker(tmp_path: Path, blocking: bool) -> None:
    class Refused(Lock):
        async def open(self) -> None:
            raise ConnectionRefusedError("nobody listens")

    class Blocked(BlockingLock):
        def open(self) -> None:
            raise ConnectionRefusedError("nobody listens")

    async def story(ctx: Context) -> None:
        raise AssertionError("not reached")

    with pytest.raises(ConnectionRefusedError, match="nobody listens"):
        record(tmp_path, Blocked(lambda: GRANTED) if blocking else Refused(granted), story)


class Marks:
    """Timestamps that say 1 ns after the call and 1 ns before the return; `wires` that asked."""

    def __init__(self) -> None:
        self.wires: list[str] = []

    @contextmanager
    def watch(self, wire: str) -> Iterator[Stamped]:
        self.wires.append(wire)
        yield lambda inv, ret: (inv + 1, ret - 1)


class Wired(Lock):
    wire = CLIENT


class WiredBlocking(BlockingLock):
    wire = CALL


@pytest.mark.parametrize(
    ("lock", "wires"),
    [
        (Lock(granted), [CALL]),
        (Wired(granted), [CLIENT, CALL]),
        (BlockingLock(lambda: GRANTED), [CALL]),
        (WiredBlocking(lambda: GRANTED), [CALL, CALL]),
    ],
    ids=["without", "coroutines", "blocking without", "blocking"],
)
def test_the_calls_of_a_client_that_names_its_wire_are_timestamped_and_all_of_the_resource(
    tmp_path: Path, lock: Lock | BlockingLock, wires: list[str]
) -> None:
    marks = Marks()

    async def story(ctx: Context) -> None:
        grant = await ctx.try_acquire("db")
        assert grant is not None
        assert await ctx.read(grant) == 1

    # The reader counts timestamps only up to the last measurement; the rows have them before.
    found = record(tmp_path, lock, story, stamps=marks)
    assert marks.wires == wires and len(found.rows) == 2
    raw = (tmp_path / "c1.seg").read_bytes()[4096:]
    flags = [raw[at + 89] for at in range(0, 2 * 96, 96)]
    assert [bool(flag & LEFT) for flag in flags] == [len(wires) == 2, True]


def test_an_owner_that_dies_says_first_that_all_its_holds_end(tmp_path: Path) -> None:
    died: list[int] = []
    contexts: list[Context] = []

    async def story(ctx: Context) -> None:
        contexts.append(ctx)
        grant = await ctx.try_acquire("db")
        assert grant is not None
        ctx.die()
        assert ctx.lost(grant)

    found = record(tmp_path, Lock(granted), story, die=lambda: died.append(len(died)))
    last = found.rows[-1]
    assert (last["f"], last["attempt"], last["status"]) == (Op.CLOSED, 0, Status.OK)
    assert found.strings[int(last["res"])] == "the owner died while holding"
    assert found.strings[int(last["key"])] == "" and died == [0]


def test_a_forked_child_has_the_client_and_records_nothing(tmp_path: Path) -> None:
    lock = Lock(granted)

    async def story(ctx: Context) -> None:
        assert ctx.disown() is lock
        assert await ctx.try_acquire("db") is not None
        ctx.tell(Op.LOST, attempt=1, lock="db", text="expired")

    assert len(record(tmp_path, lock, story).rows) == 0


@pytest.mark.parametrize(
    ("phase", "running", "reached"),
    [(PREPARE, False, False), (GO, True, False), (STOP, False, True), (END, False, True)],
)
def test_new_acquires_begin_in_one_phase_only(
    tmp_path: Path, phase: int, running: bool, reached: bool
) -> None:
    async def story(ctx: Context) -> None:
        assert (ctx.running, ctx.reached(STOP)) == (running, reached)

    record(tmp_path, Lock(granted), story, phase=lambda: phase)


def test_an_attempt_whose_outcome_is_unknown_claims_nothing(tmp_path: Path) -> None:
    lost: list[Grant] = []

    async def unknown() -> Answer:
        return Answer(outcome=Status.INFO, error="timed out", token=9)

    async def story(ctx: Context) -> None:
        ctx.claims.on_lost(lost.append)
        assert await ctx.acquire("db", wait_ns=0) is None
        ctx.tell(Op.LOST, attempt=3 << 32 | 1, lock="db", text="expired")

    found = record(tmp_path, Lock(unknown), story)
    assert found.rows[0]["token"] == 9 and lost == []


class Replies(Register):
    """A resource that gives its replies in turn, and keeps what was sent."""

    def __init__(self, *outcomes: Status) -> None:
        super().__init__(Reply(outcome=Status.OK))
        self.outcomes = list(outcomes)
        self.sent: list[tuple[str, int, bool]] = []

    async def write(
        self, key: str, *, op: int, attempt: int, token: int, base: int, once: bool = False
    ) -> Reply:
        self.sent.append((key, op, once))
        n = len(self.sent)
        return Reply(outcome=self.outcomes[n - 1], version=n, error=f"reply {n}")


OK, FAIL, INFO = Status.OK, Status.FAIL, Status.INFO


@pytest.mark.parametrize(
    ("outcomes", "best"),
    [
        ([FAIL], 1),
        ([OK, FAIL, FAIL], 1),
        ([FAIL, OK, INFO], 2),
        ([FAIL, INFO, OK], 3),
        ([OK, OK], 1),
        ([FAIL, INFO, FAIL], 2),
        ([INFO, FAIL, INFO], 1),
        ([FAIL, FAIL], 1),
    ],
)
def test_a_repeated_write_is_what_the_best_of_its_replies_says(
    tmp_path: Path, outcomes: list[Status], best: int
) -> None:
    resource = Replies(*outcomes)
    accepted = outcomes[best - 1] is OK

    async def story(ctx: Context) -> None:
        version = await ctx.write(HELD, base=6, repeats=len(outcomes) - 1, key="k")
        assert version == (best if accepted else -1)

    found = record(tmp_path, Lock(granted), story, resource)
    (row,) = found.rows
    assert resource.sent == [("k", 3 << 32, False)] * len(outcomes), "one identity"
    assert (row["status"], row["res"]) == (outcomes[best - 1], best)
    assert (row["arg"], row["aux"]) == (6, len(outcomes) - 1)
    assert found.strings[int(row["err"])] == f"reply {best}"


def test_a_command_that_takes_effect_once_is_sent_once_and_says_so(tmp_path: Path) -> None:
    resource = Replies(OK)

    async def story(ctx: Context) -> None:
        assert await ctx.write(HELD, repeats=ONCE) == 1

    (row,) = record(tmp_path, Lock(granted), story, resource).rows
    assert resource.sent == [("db", 3 << 32, True)]
    assert (row["aux"], row["arg"]) == (ONCE, -1)


@pytest.mark.parametrize(("outcome", "version"), [(OK, 8), (FAIL, -1), (INFO, -1)])
def test_a_read_that_was_not_accepted_has_no_version(
    tmp_path: Path, outcome: Status, version: int
) -> None:
    resource = Register(Reply(outcome=outcome, version=8))

    async def story(ctx: Context) -> None:
        assert await ctx.read(HELD, key="other") == version

    found = record(tmp_path, Lock(granted), story, resource)
    (row,) = found.rows
    assert (row["f"], row["arg"], row["aux"], row["res"]) == (Op.READ, 0, 0, 8)
    assert found.strings[int(row["key"])] == "other" and row["token"] == HELD.token


def test_a_request_names_an_idempotent_command_and_is_blind_by_default() -> None:
    plain = {"do": "write", "key": "db", "base": -1, "op": 3, "attempt": 2, "token": NO_TOKEN}
    assert asked("write", "db", op=3, attempt=2, token=NO_TOKEN) == plain
    once = asked("write", "db", once=True, op=3, attempt=2, token=NO_TOKEN, base=4)
    assert once == {**plain, "base": 4, "once": 1}
    assert answered({"ok": True, "version": "7", "error": ""}) == Reply(outcome=OK, version=7)
    refused = answered({"ok": False, "version": 7, "error": "stale"})
    assert refused == Reply(outcome=FAIL, version=7, error="stale")
