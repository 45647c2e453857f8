"""Repeats the acquire of a service without a queue, until it is granted or the wait is over."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from holdfast.harness.core.clock import SECOND, now_ns
from holdfast.harness.core.operations import Answer, Op, Status
from holdfast.harness.core.ports import ClientSetup
from holdfast.harness.core.seeds import stream

HELD = Answer(outcome=Status.FAIL)
EXCLUSIVE_ONLY = Answer(outcome=Status.FAIL, error="this lock is exclusive only")


class Poller:
    """The polls of one client, with a random pause between two, of `between_ns`.

    A poll that FAILs without an error found the lock held, which is recorded as waiting. One that
    FAILs with an error is repeated, too, unless `errors_end`. Any other answer is final.
    """

    def __init__(
        self,
        setup: ClientSetup,
        name: str,
        between_ns: tuple[int, int],
        *,
        errors_end: bool = False,
    ) -> None:
        self._tell = setup.tell
        self._now = setup.clock or now_ns
        self._rng: random.Random = stream(setup.seed, name, setup.process)
        self._between_ns = between_ns
        self._errors_end = errors_end

    def until(self, lock: str, attempt: int, wait_ns: int, poll: Callable[[], Answer]) -> Answer:
        """The first final answer, or the last before the wait is over."""
        end_ns = self._now() + wait_ns
        while True:
            answer = poll()
            pause_ns = self._pause_ns(answer, lock, attempt, wait_ns, end_ns)
            if not pause_ns:
                return answer
            time.sleep(pause_ns / SECOND)

    async def until_async(
        self, lock: str, attempt: int, wait_ns: int, poll: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """The same on an event loop."""
        end_ns = self._now() + wait_ns
        while True:
            answer = await poll()
            pause_ns = self._pause_ns(answer, lock, attempt, wait_ns, end_ns)
            if not pause_ns:
                return answer
            await asyncio.sleep(pause_ns / SECOND)

    def _pause_ns(self, answer: Answer, lock: str, attempt: int, wait_ns: int, end_ns: int) -> int:
        """The time to the next poll, 0 if there is none; records that the client waits."""
        if answer.outcome is not Status.FAIL or (answer.error and self._errors_end):
            return 0
        pause_ns = self._rng.randrange(*self._between_ns)
        if wait_ns >= 0 and self._now() + pause_ns >= end_ns:
            return 0
        if not answer.error:
            self._tell(Op.WAITING, attempt=attempt, lock=lock, res=-1)
        return pause_ns
