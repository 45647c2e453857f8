"""Work that a client does beside its calls, and ends when it closes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from holdfast.harness.core.waiting import cancel_until_done

T = TypeVar("T")


class Background:
    """Tasks in the order of their start, each until it is done."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[object], None] = {}

    def start(self, work: Coroutine[object, None, T]) -> asyncio.Task[T]:
        """A task that runs until it is done or `end` is called."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    async def end(self) -> None:
        """Cancels what still runs, and waits for its end."""
        await cancel_until_done(*self._tasks)
