"""Waits for a condition, always with a bound. `now` is the clock of the bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress

from holdfast.harness.core.clock import MILLISECOND, SECOND, now_ns

CANCEL_AGAIN_S = 0.1
"""A task that has not ended this long after its cancellation is cancelled once more."""


async def until(
    condition: Callable[[], bool],
    *,
    within_ns: int,
    every_ns: int = 10 * MILLISECOND,
    now: Callable[[], int] = now_ns,
) -> bool:
    """Check every `every_ns` until the condition holds; False if it does not within the bound."""
    deadline = now() + within_ns
    while not condition():
        if now() >= deadline:
            return False
        await asyncio.sleep(every_ns / SECOND)
    return True


async def until_answer(
    condition: Callable[[], Awaitable[bool]],
    *,
    within_ns: int,
    every_ns: int = 30 * MILLISECOND,
    now: Callable[[], int] = now_ns,
) -> bool:
    """The same for an asynchronous condition."""
    deadline = now() + within_ns
    while not await condition():
        if now() >= deadline:
            return False
        await asyncio.sleep(every_ns / SECOND)
    return True


async def to_the_end(work: Coroutine[object, None, None]) -> None:
    """Complete the work even if this task is cancelled; the cancellation follows afterwards."""
    task = asyncio.ensure_future(work)
    stopped: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            stopped = error
        except Exception:
            break
    task.result()
    if stopped is not None:
        raise stopped


async def cancel_until_done(*tasks: asyncio.Task[object]) -> None:
    """Cancel tasks until each has ended, however: the code that they run may lose a cancellation.

    `asyncio.wait_for` of Python 3.11 returns the response if a cancellation meets it, and libraries
    catch what they should not. A cancellation of the caller follows afterwards. Not for a task that
    undoes its work when it is cancelled: the second cancellation would end that.
    """
    caller = asyncio.current_task()
    asked = caller.cancelling() if caller is not None else 0
    loop = asyncio.get_running_loop()

    timer: list[asyncio.TimerHandle] = []

    def cancel() -> None:
        for task in tasks:
            task.cancel()
        timer[:] = [loop.call_later(CANCEL_AGAIN_S, cancel)]

    cancel()
    try:
        for task in tasks:
            while not task.done():
                # The caller's cancellation ends here as well: `await` passes it on to the task.
                with suppress(asyncio.CancelledError, Exception):
                    await task
    finally:
        timer[0].cancel()
    for task in tasks:
        if not task.cancelled():
            task.exception()
    if caller is not None and caller.cancelling() > asked:
        raise asyncio.CancelledError


async def sleep_until(t_ns: int, now: Callable[[], int] = now_ns) -> None:
    """Return at a time of the run's clock, or at once if it has passed."""
    await asyncio.sleep(max(0, t_ns - now()) / SECOND)


class Sleeps:
    """Sleeps that can all be ended early, once and for all."""

    def __init__(self) -> None:
        self.ended = False
        self._asleep: dict[asyncio.Task[object], None] = {}

    async def until(self, t_ns: int, now: Callable[[], int] = now_ns) -> None:
        """Return at a time of the run's clock, or at once if it has passed or sleeps are ended."""
        task = asyncio.current_task()
        if self.ended or task is None:
            return
        self._asleep[task] = None
        try:
            await sleep_until(t_ns, now)
        except asyncio.CancelledError:
            if not self.ended or task.uncancel():
                raise
        finally:
            self._asleep.pop(task, None)

    def end(self) -> None:
        """Wake all who sleep."""
        self.ended = True
        for task in list(self._asleep):
            task.cancel()
