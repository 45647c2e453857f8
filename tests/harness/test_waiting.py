"""What has begun to be undone is undone, whoever asks for an end meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.harness.core.waiting import to_the_end


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
