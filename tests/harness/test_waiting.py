"""Waiting is bounded; what has begun to be undone is undone, whoever asks for an end meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.harness.core.clock import SECOND, now_ns
from holdfast.harness.core.waiting import (
    Sleeps,
    cancel_until_done,
    sleep_until,
    to_the_end,
    until,
    until_answer,
)


def test_work_goes_on_to_its_end_through_several_cancellations() -> None:
    done: list[str] = []

    async def tear_down(begun: asyncio.Event, go: asyncio.Event) -> None:
        begun.set()
        await go.wait()
        done.append("removed")

    async def work() -> None:
        begun, go = asyncio.Event(), asyncio.Event()
        task = asyncio.ensure_future(to_the_end(tear_down(begun, go)))
        await begun.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not task.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    assert done == ["removed"]


def test_what_fails_in_it_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("kept")

    async def work() -> None:
        with pytest.raises(ValueError, match="kept"):
            await to_the_end(fails())

    asyncio.run(work())


@dataclass
class Clock:
    """A clock that goes on by a step whenever it is read."""

    step_ns: int
    read: int = 0

    def now(self) -> int:
        self.read += 1
        return (self.read - 1) * self.step_ns


@pytest.mark.parametrize(
    ("holds_at", "within", "found", "checks"),
    [
        (1, 0, True, 1),
        (2, 0, False, 1),
        (3, 3, True, 3),
        (4, 2, False, 2),
        (2, 2, True, 2),
        (9, 5, False, 5),
    ],
)
@pytest.mark.parametrize("of_coroutines", [False, True])
def test_a_condition_is_checked_at_least_once_and_not_after_its_bound(
    of_coroutines: bool, holds_at: int, within: int, found: bool, checks: int
) -> None:
    seen: list[int] = []

    def condition() -> bool:
        seen.append(len(seen) + 1)
        return len(seen) == holds_at

    async def coroutine() -> bool:
        return condition()

    async def wait() -> bool:
        bound: dict[str, Any] = {"within_ns": within * 10, "every_ns": 0, "now": Clock(10).now}
        if of_coroutines:
            return await until_answer(coroutine, **bound)
        return await until(condition, **bound)

    assert (asyncio.run(wait()), len(seen)) == (found, checks)


@pytest.mark.parametrize(("due_ns", "slept_s"), [(5_000, 4e-6), (1_000, 0), (500, 0), (0, 0)])
def test_a_time_that_has_passed_is_not_waited_for(
    due_ns: int, slept_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(sleep_until(due_ns, lambda: 1_000))
    assert slept == [slept_s]


def test_all_who_sleep_are_woken_and_who_comes_later_does_not_sleep() -> None:
    async def work() -> None:
        sleeps, far_ns = Sleeps(), now_ns() + 3600 * SECOND
        asleep = [asyncio.ensure_future(sleeps.until(far_ns)) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not any(task.done() for task in asleep)
        sleeps.end()
        await asyncio.wait_for(asyncio.gather(*asleep), 10)
        await asyncio.wait_for(sleeps.until(far_ns), 10)

    asyncio.run(work())


def test_who_is_cancelled_while_asleep_stays_cancelled() -> None:
    async def work() -> None:
        sleeps = Sleeps()
        asleep = asyncio.ensure_future(sleeps.until(now_ns() + 3600 * SECOND))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asleep.cancel()
        sleeps.end()
        with pytest.raises(asyncio.CancelledError):
            await asleep

    asyncio.run(work())


async def deaf(losses: int) -> None:
    """Loses so many cancellations, as a library does that catches what it should not."""
    while losses >= 0:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            losses -= 1
    raise asyncio.CancelledError


@pytest.mark.parametrize("losses", [0, 1, 3])
def test_a_task_that_loses_cancellations_is_cancelled_until_it_is_done(losses: int) -> None:
    async def work() -> bool:
        tasks = [asyncio.ensure_future(deaf(losses)) for _ in range(2)]
        await asyncio.sleep(0)
        async with asyncio.timeout(20):
            await cancel_until_done(*tasks)
        return all(task.cancelled() for task in tasks)

    assert asyncio.run(work())


@pytest.mark.parametrize("losses", [0, 2])
def test_the_cancellation_of_who_cancels_follows_when_the_task_is_done(losses: int) -> None:
    async def work() -> bool:
        task = asyncio.ensure_future(deaf(losses))
        await asyncio.sleep(0)
        ending = asyncio.ensure_future(cancel_until_done(task))
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        return task.cancelled()

    assert asyncio.run(work())


def test_an_error_of_a_cancelled_task_is_nobodys_concern(caplog: pytest.LogCaptureFixture) -> None:
    async def fails() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("the connection broke")

    async def work() -> None:
        task = asyncio.ensure_future(fails())
        await asyncio.sleep(0)
        await cancel_until_done(task)
        assert isinstance(task.exception(), OSError)

    asyncio.run(work())
    assert not caplog.records
