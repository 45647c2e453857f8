"""A call that is far over its bound is cancelled, and whoever else cancels it is told apart."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from holdfast.harness.client.guard import Guard


async def bounded(guard: Guard, within_s: float, for_s: float) -> str:
    watch = guard.enter(within_s)
    try:
        await asyncio.sleep(for_s)
    except asyncio.CancelledError:
        if not watch.gave_up():
            raise
        return "given up"
    finally:
        guard.leave(watch)
    return "done"


def test_the_call_that_is_due_is_given_up_and_no_other() -> None:
    async def work() -> list[str]:
        guard = Guard()
        calls = [(30.0, 0.0), (0.05, 30.0), (0.01, 30.0), (30.0, 0.1)]
        return list(await asyncio.gather(*(bounded(guard, *call) for call in calls)))

    assert asyncio.run(work()) == ["done", "given up", "given up", "done"]


def test_a_task_that_was_given_up_can_go_on() -> None:
    async def work() -> tuple[str, str, int]:
        guard = Guard()
        first = await bounded(guard, 0.01, 30.0)
        second = await bounded(guard, 30.0, 0.0)
        task = asyncio.current_task()
        assert task is not None
        return first, second, task.cancelling()

    assert asyncio.run(work()) == ("given up", "done", 0)


@pytest.mark.parametrize("faults", [1, 2])
def test_a_call_that_two_cancel_at_once_is_given_up_and_its_task_goes_on(faults: int) -> None:
    async def work() -> tuple[str, int, int]:
        guard = Guard()
        loop = asyncio.get_running_loop()
        told: list[float] = []

        def at_once() -> None:
            for _ in range(faults):
                guard.cancel_calls(9, after_s=0.0, within_s=1.0, told=told.append)
            (watch,) = guard._watches
            loop.call_later(0.0, watch.fire)

        loop.call_soon(at_once)
        said = await bounded(guard, 30.0, 30.0)
        task = asyncio.current_task()
        assert task is not None
        return said, len(told), task.cancelling()

    assert asyncio.run(work()) == ("given up", 1, 0)


def test_a_cancellation_by_somebody_else_is_passed_on() -> None:
    async def work() -> None:
        guard = Guard()
        task = asyncio.ensure_future(bounded(guard, 30.0, 30.0))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(work())


@pytest.mark.parametrize(
    ("count", "within_s", "early", "late"), [(2, 30.0, 2, 0), (4, 30.0, 3, 1), (9, 0.0, 3, 0)]
)
def test_a_fault_cancels_as_many_calls_as_it_says_in_its_time(
    count: int, within_s: float, early: int, late: int
) -> None:
    async def work() -> tuple[int, int, int]:
        guard, told = Guard(), list[float]()
        begun_s = asyncio.get_running_loop().time()
        first = [asyncio.ensure_future(bounded(guard, 30.0, 30.0)) for _ in range(3)]
        await asyncio.sleep(0)
        guard.cancel_calls(count, after_s=0.0, within_s=within_s, told=told.append)
        second = [asyncio.ensure_future(bounded(guard, 30.0, 30.0)) for _ in range(2)]
        while len(told) < min(count, 3 + 2 * (within_s > 0)):
            await asyncio.wait([*first, *second], timeout=0.01)
        await asyncio.wait([*first, *second], timeout=0.01)
        ended = [sum(task.done() for task in tasks) for tasks in (first, second)]
        for task in (*first, *second):
            task.cancel()
        await asyncio.wait([*first, *second])
        passed_s = asyncio.get_running_loop().time() - begun_s
        assert all(0 <= ran_s <= passed_s for ran_s in told), "how long each had lasted"
        return ended[0], ended[1], len(told)

    assert asyncio.run(asyncio.wait_for(work(), 20)) == (early, late, early + late)


def test_calls_are_given_up_in_the_order_of_their_bounds() -> None:
    async def work() -> list[str]:
        guard, ended = Guard(), list[str]()

        async def call(name: str, within_s: float) -> None:
            ended.append(f"{name} {await bounded(guard, within_s, 30.0)}")

        await asyncio.gather(call("long", 0.06), call("short", 0.01), call("middle", 0.03))
        return ended

    assert asyncio.run(asyncio.wait_for(work(), 20)) == [
        "short given up", "middle given up", "long given up",
    ]  # fmt: skip


def test_a_call_that_loses_its_cancellation_is_cancelled_again() -> None:
    async def work() -> tuple[str, int]:
        guard, task = Guard(), asyncio.current_task()
        assert task is not None
        watch = guard.enter(0.01)
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(30.0)
            await asyncio.sleep(30.0)
        except asyncio.CancelledError:
            ended = "given up" if watch.gave_up() else "cancelled"
        finally:
            guard.leave(watch)
        return ended, task.cancelling()

    assert asyncio.run(asyncio.wait_for(work(), 20)) == ("given up", 0)
