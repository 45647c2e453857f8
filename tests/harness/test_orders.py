"""Faults inside a client: calls cancelled, a thread that stands still, and what is told of them."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.client.context import Context
from holdfast.harness.client.self_faults import (
    BLOCKING,
    BUSY,
    COROUTINES,
    OrderingAgent,
    OrderReceiver,
)
from holdfast.harness.core.clock import now_ns
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.operations import Answer, Grant, Op, Status
from tests.harness.test_client import GRANTED, BlockingLock, Lock, record, statuses

MOST_S = 20.0


class Slow(Lock):
    """Never answers an acquire, and a release only the second time it is asked."""

    def __init__(self) -> None:
        super().__init__(self._never)
        self.releases = 0

    async def _never(self) -> Answer:
        await asyncio.Event().wait()
        return GRANTED

    async def release(self, grant: Grant) -> Answer:
        self.releases += 1
        return Answer(outcome=Status.NOT_OWNER)


class Agent:
    """Nobody should be asked."""

    async def ask(self, do: str, **args: Any) -> dict[str, Any]:
        return {"passed on": do}


async def given(
    folder: Path, ctx: Context, what: str, for_s: float, how: str = ""
) -> OrderingAgent:
    """The order, sent to a worker of one client."""
    folder.mkdir(exist_ok=True)
    OrderReceiver(folder / "c1.order", [ctx])
    orders = OrderingAgent(Agent(), folder)  # type: ignore[arg-type]
    await orders.ask(
        "order",
        fault="f1",
        nodes=["c1"],
        what=what,
        count=1,
        after_ns=1000,
        for_ns=int(for_s * 1e9),
        how=how,
    )
    return orders


async def seen(orders: OrderingAgent) -> dict[str, Any]:
    """The evidence, once there is some."""
    until_ns = now_ns() + int(MOST_S * 1e9)
    while True:
        answer = await orders.ask("observe", fault="f1")
        if answer["evidence"]["done"] or now_ns() > until_ns:
            return dict(answer["evidence"])
        await asyncio.sleep(0.005)


def test_a_cancelled_acquire_is_unknown_and_what_it_may_have_got_is_given_back(
    tmp_path: Path,
) -> None:
    lock = Slow()

    async def story(ctx: Context) -> None:
        orders = await given(tmp_path / "w", ctx, "cancel", MOST_S)
        assert await ctx.acquire("db", wait_ns=0) is None
        evidence = await seen(orders)
        assert evidence["effective"] and evidence["done"][0]["cancelled"] == 1
        assert (await orders.ask("hello"))["passed on"] == "hello"

    found = record(tmp_path, lock, story)
    assert statuses(found, Op.ACQUIRE) == [Status.INFO]
    assert found.strings[found.rows[0]["err"]] == "cancelled by a fault"
    assert statuses(found, Op.RELEASE) == [Status.NOT_OWNER]
    assert lock.releases == 1


def test_a_call_of_a_blocking_library_is_not_cancelled_and_the_reason_is_told(
    tmp_path: Path,
) -> None:
    async def story(ctx: Context) -> None:
        evidence = await seen(await given(tmp_path / "w", ctx, "cancel", MOST_S))
        assert not evidence["effective"]
        assert evidence["done"][0]["refused"] == BLOCKING

    record(tmp_path, BlockingLock(lambda: GRANTED), story)


@pytest.mark.parametrize("blocking", [True, False])
def test_a_stall_holds_up_the_thread_of_the_calls(tmp_path: Path, blocking: bool) -> None:
    async def granted() -> Answer:
        return GRANTED

    async def story(ctx: Context) -> None:
        orders = await given(tmp_path / "w", ctx, "stall", 0.2)
        evidence = await seen(orders)
        assert evidence["effective"] and evidence["done"][0]["stalled_ms"] >= 200

    record(tmp_path, BlockingLock(lambda: GRANTED) if blocking else Lock(granted), story)


class Inherited(BlockingLock):
    """Leaves word, in a file, of what becomes of it in a child."""

    def __init__(self, said: Path) -> None:
        super().__init__(lambda: GRANTED)
        self.kept = Kept(said)
        self.tell: Any = None

    def close(self) -> None:
        if os.getpid() != self.kept.parent:
            self.tell(Op.LOST, attempt=1, lock="db", text="closed")
            self.kept.say("closed")


class Kept:
    """Something of a library with a finalizer."""

    def __init__(self, said: Path) -> None:
        self.said, self.itself, self.parent = said, self, os.getpid()

    def say(self, word: str) -> None:
        with self.said.open("a") as file:
            file.write(f"{word} in {'child' if os.getpid() != self.parent else 'parent'}\n")

    def __del__(self) -> None:
        if self.said.parent.is_dir():  # it may be dropped long after its test
            self.say("dropped")


@pytest.mark.parametrize(
    ("how", "said", "end"),
    [
        ("exit", ["dropped in child"], "exit 0"),
        ("close", ["closed in child", "dropped in child"], "exit 0"),
        ("stay", [], "signal 14"),
    ],
)
def test_a_child_does_with_the_client_what_a_child_does_and_records_nothing(
    tmp_path: Path, how: str, said: list[str], end: str
) -> None:
    file = tmp_path / "said"
    file.touch()
    lock = Inherited(file)

    async def story(ctx: Context) -> None:
        lock.tell = ctx.tell
        orders = await given(tmp_path / "w", ctx, "fork", 0.3 if how == "stay" else MOST_S, how)
        evidence = await seen(orders)
        assert evidence["effective"] and evidence["done"][0]["end"] == end, evidence
        assert not Path(f"/proc/{evidence['done'][0]['child']}").exists()
        assert file.read_text().splitlines() == said
        assert await ctx.acquire("db", wait_ns=0) is not None

    found = record(tmp_path, lock, story)
    assert [row["f"] for row in found.rows] == [Op.ACQUIRE]


def test_a_client_of_coroutines_is_not_forked_and_the_reason_is_told(tmp_path: Path) -> None:
    async def story(ctx: Context) -> None:
        evidence = await seen(await given(tmp_path / "w", ctx, "fork", MOST_S))
        assert not evidence["effective"]
        assert evidence["done"][0]["refused"] == COROUTINES

    record(tmp_path, Slow(), story)


def test_a_client_whose_thread_is_busy_is_not_forked_when_the_fault_is_over(
    tmp_path: Path,
) -> None:
    over = threading.Event()

    def act() -> Answer:
        over.wait(MOST_S)
        return GRANTED

    async def story(ctx: Context) -> None:
        asking = asyncio.ensure_future(ctx.acquire("db", wait_ns=0))
        await asyncio.sleep(0)
        orders = await given(tmp_path / "w", ctx, "fork", 1e-9)
        await asyncio.sleep(0)
        over.set()
        evidence = await seen(orders)
        assert evidence["done"][0]["refused"] == BUSY and not evidence["effective"]
        await asking

    record(tmp_path, BlockingLock(act), story)


def test_a_client_that_does_not_listen_is_told(tmp_path: Path) -> None:
    orders = OrderingAgent(Agent(), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(EnvironmentFailed, match="c9: connection failed"):
        asyncio.run(orders.ask("order", fault="f", nodes=["c9"], what="stall"))


def listening(path: Path) -> int:
    """A worker's end of a fifo, newer than all before."""
    os.mkfifo(path)
    os.utime(path, ns=(0, 10**18 + len(list(path.parent.iterdir()))))
    return os.open(path, os.O_RDWR | os.O_NONBLOCK)


def order(orders: OrderingAgent, what: str, *nodes: str) -> None:
    asyncio.run(orders.ask("order", fault="f1", nodes=list(nodes), what=what))


def test_an_order_goes_to_the_newest_worker_of_its_node_and_to_no_other(tmp_path: Path) -> None:
    names = ["c1", "c1.1", "c10", "c1.2", "c11", "c2"]
    ends = {name: listening(tmp_path / f"{name}.order") for name in names}
    orders = OrderingAgent(Agent(), tmp_path)  # type: ignore[arg-type]
    order(orders, "stall", "c1", "c2")
    heard = {}
    for name, end in ends.items():
        try:
            heard[name] = json.loads(os.read(end, 4096))["what"]
        except BlockingIOError:
            continue
        finally:
            os.close(end)
    assert heard == {"c1.2": "stall", "c2": "stall"}
    with pytest.raises(EnvironmentFailed, match=r"^order to c2: connection failed: .*No such dev"):
        order(orders, "stall", "c2")


def done(folder: Path, writer: str, **row: Any) -> None:
    with (folder / f"{writer}.done").open("a") as file:
        file.write(json.dumps({"fault": "f1", "t_ns": 1, **row}) + "\n")


def test_the_results_of_an_order_are_those_of_its_fault_and_of_all_workers_of_its_nodes(
    tmp_path: Path,
) -> None:
    ends = [listening(tmp_path / f"{name}.order") for name in ("c1", "c2")]
    orders = OrderingAgent(Agent(), tmp_path)  # type: ignore[arg-type]
    order(orders, "cancel", "c1", "c2")

    def observed() -> dict[str, Any]:
        answer = asyncio.run(orders.ask("observe", fault="f1"))
        evidence: dict[str, Any] = answer["evidence"]
        return {
            "effective": evidence["effective"],
            "n": sorted(row["n"] for row in evidence["done"]),
        }

    assert observed() == {"effective": False, "n": []}
    done(tmp_path, "c1", n=1, refused=BLOCKING)
    done(tmp_path, "c1", n=2, fault="f2")
    done(tmp_path, "c10", n=3)
    assert observed() == {"effective": False, "n": [1]}
    done(tmp_path, "c1.1", n=4, cancelled=1)
    done(tmp_path, "c2", n=5, refused=BLOCKING)
    assert observed() == {"effective": True, "n": [1, 4, 5]}
    for end in ends:
        os.close(end)


@pytest.mark.parametrize(("what", "waits"), [("stall", True), ("fork", True), ("cancel", False)])
def test_a_heal_waits_for_what_is_known_only_when_it_is_over(
    tmp_path: Path, what: str, waits: bool
) -> None:
    end = listening(tmp_path / "c1.order")
    orders = OrderingAgent(Agent(), tmp_path)  # type: ignore[arg-type]

    async def late() -> None:
        await asyncio.sleep(0)
        done(tmp_path, "c1", n=1)

    async def work() -> bool:
        await orders.ask("order", fault="f1", nodes=["c1"], what=what)
        assert not (await orders.ask("observe", fault="f1"))["evidence"]["effective"], "not yet"
        healed, _ = await asyncio.gather(orders.ask("heal", fault="f1"), late())
        return bool(healed["evidence"]["effective"])

    assert asyncio.run(work()) is waits
    os.close(end)
