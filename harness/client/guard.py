"""A timeout for every call of a client, with one timer for all of them.

`asyncio.timeout` would do the same with a timer per call, which costs more than many calls do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.harness.core.operations import CANCELLED, Answer, Status
from holdfast.harness.core.waiting import CANCEL_AGAIN_S

GIVEN_UP = "no response: given up by the harness"


class Watch:
    """One call and the task that makes it. Times are of the running loop's clock."""

    __slots__ = ("_cancelling", "_fired", "_task", "begun_s", "until_s", "why")

    def __init__(self, task: asyncio.Task[object], begun_s: float, until_s: float) -> None:
        self.begun_s = begun_s
        self.until_s = until_s
        self.why = GIVEN_UP
        self._task = task
        self._cancelling = task.cancelling()
        self._fired = 0

    @property
    def fired(self) -> bool:
        """Whether it was cancelled and has not ended yet."""
        return self._fired > 0

    def fire(self) -> None:
        """Cancel the call, on timeout or for a fault. Both may happen at once."""
        self._fired += 1
        self._task.cancel()

    def gave_up(self) -> bool:
        """Whether a cancellation that left the call is only ours; uncancels ours."""
        fired, self._fired = self._fired, 0
        for _ in range(fired):
            self._task.uncancel()
        return fired > 0 and self._task.cancelling() <= self._cancelling


@dataclass(slots=True)
class _Cancelling:
    count: int
    after_s: float
    until_s: float
    told: Callable[[float], None]


class Guard:
    """The calls in flight of one client."""

    def __init__(self) -> None:
        self._watches: dict[Watch, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        self._cancelling: _Cancelling | None = None

    def cancel_calls(
        self, count: int, *, after_s: float, within_s: float, told: Callable[[float], None]
    ) -> None:
        """Cancels up to `count` calls that have lasted `after_s`, for the next `within_s`.

        `told` is called for each with its duration.
        """
        loop = asyncio.get_running_loop()
        self._cancelling = _Cancelling(count, after_s, loop.time() + within_s, told)
        for watch in self._watches:
            loop.call_later(after_s, self._cancel, watch)

    def _cancel(self, watch: Watch) -> None:
        wanted = self._cancelling
        if wanted is None or wanted.count <= 0 or watch not in self._watches or watch.fired:
            # A call that one fault has cancelled is no evidence of another.
            return
        wanted.count -= 1
        watch.why = CANCELLED
        watch.fire()
        wanted.told(asyncio.get_running_loop().time() - watch.begun_s)

    def enter(self, within_s: float) -> Watch:
        """A call of the current task begins; it is cancelled if it lasts longer than within_s."""
        task = asyncio.current_task()
        assert task is not None, "calls are made by tasks"
        loop = task.get_loop()
        now_s = loop.time()
        watch = Watch(task, now_s, now_s + within_s)
        self._watches[watch] = None
        if self._cancelling is not None and now_s < self._cancelling.until_s:
            loop.call_later(self._cancelling.after_s, self._cancel, watch)
        if self._timer is None or watch.until_s < self._timer_s:
            self._set_timer(loop, watch.until_s)
        return watch

    def leave(self, watch: Watch) -> None:
        """The call is over; a cancellation that it swallowed is undone."""
        del self._watches[watch]
        watch.gave_up()

    def _set_timer(self, loop: asyncio.AbstractEventLoop, until_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = until_s
        self._timer = loop.call_at(until_s, self._on_timer, loop)

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now_s = loop.time()
        for watch in self._watches:
            if watch.until_s <= now_s:
                watch.fire()
                # A call that loses this cancellation would otherwise never end.
                watch.until_s = now_s + CANCEL_AGAIN_S
        if self._watches:
            self._set_timer(loop, min(watch.until_s for watch in self._watches))


def unforeseen(error: Exception) -> Answer:
    """The answer for an error that the adapter's table does not list: unknown outcome."""
    return Answer(outcome=Status.INFO, error=f"{type(error).__name__}: {error}")
