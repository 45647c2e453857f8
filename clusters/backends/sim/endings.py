"""Ends coroutines that no loop will ever continue, so that Python reports none of them at its end.

A coroutine that is collected while it is suspended is closed by the collector, and what its way out
does then (an await, a new task, an error) is printed as "Exception ignored in" or "never awaited".
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import inspect
from asyncio import events
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, cast

from holdfast.clusters.backends.sim.event_loop import NodeLoop

Work = Coroutine[object, None, object]
MOST_TRIES = 100
"""A coroutine that suppresses GeneratorExit this many times suppresses it always."""


def works_of(loop: NodeLoop) -> list[Work]:
    """The coroutines of the tasks of a loop that are not over."""
    tasks = asyncio.all_tasks(loop)  # type: ignore[arg-type]
    return [work for work in (cast(Work, task.get_coro()) for task in tasks) if not _closed(work)]


def end(loop: NodeLoop, works: Iterable[Work]) -> None:
    """Close coroutines of a dead loop, and what they begin on their way out."""
    assert loop.dead, "what they begin must not run"
    set_running: Callable[[Any], None] = events._set_running_loop
    # On their way out they may ask for the running loop, as for a task that asks somebody else.
    set_running(loop)
    try:
        works = [*works, *works_of(loop)]
        for _ in range(MOST_TRIES):
            for work in works:
                _close(work)
            works = works_of(loop)
            if not works:
                return
        for work in works:
            _keep_for_ever(work)
    finally:
        set_running(None)


def _close(work: Work) -> None:
    """Close a coroutine, also one that awaits or fails on its way out."""
    for _ in range(MOST_TRIES):
        if _closed(work):
            return
        # Whatever it raises, nobody is left to learn of it. A BaseException too: a client ends its
        # own process by one (`Died`).
        with contextlib.suppress(BaseException):
            work.close()


def _keep_for_ever(work: Work) -> None:
    """Never have it collected, not even at the end of the process: without a running loop, one that
    suppresses every error and tries again would spin there, in this thread."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(work))


def _closed(work: Work) -> bool:
    return inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
