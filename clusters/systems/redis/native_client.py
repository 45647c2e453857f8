"""The published Redis lock over our own protocol code: one connection, full script texts.

It sends what redis-py would send, except that a lock without tokens is acquired with SET itself, at
a fraction of the CPU, for runs in which the client must not be the bottleneck. Standard library
only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.clusters.systems.polling import HELD, Poller
from holdfast.clusters.systems.redis import PORT
from holdfast.clusters.systems.redis.lean_connection import Lean
from holdfast.clusters.systems.redis.resp import encoded
from holdfast.clusters.systems.redis.variants import ACQUIRE, RELEASE, RENEW
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.operations import NO_TOKEN, Answer, Grant, Mode, Status
from holdfast.harness.core.ports import CALL, ClientSetup

ANSWER_WITHIN_S = 1.0
POLL_NS = (2 * MILLISECOND, 12 * MILLISECOND)
SET, NOT_SET = b"+OK\r\n", b"$-1\r\n"
Meant = Callable[[int], Answer]


class OwnRedisLock:
    """A LockClient; calls of one client take turns on its connection."""

    wire = CALL

    def __init__(self, setup: ClientSetup) -> None:
        self._address = setup.servers[0][1]
        self._poller = Poller(setup, "redis polls", POLL_NS, errors_end=True)
        self._counted = setup.options.get("tokens", "none") == "counter"
        self._turn = asyncio.Lock()
        self._line: Lean | None = None
        self._answer: asyncio.Future[bytes] | None = None
        self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Connect once, so that the first acquire is not the first connect."""
        async with asyncio.timeout(ANSWER_WITHIN_S):
            await self._connect()

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        """Poll until the key is set or the wait is over; each rejected poll is recorded."""
        ttl_ms = ttl_ns // MILLISECOND
        words: tuple[str | int, ...] = ("SET", lock, attempt, "NX", "PX", ttl_ms)
        if self._counted:
            words = ("EVAL", ACQUIRE, 2, lock, f"{lock}:token", attempt, ttl_ms, "counter")
        question = encoded(words)

        def meant(got: int) -> Answer:
            if got < 0:
                return HELD
            token = got if self._counted else NO_TOKEN
            return Answer(outcome=Status.OK, token=token, ttl_ns=ttl_ns)

        return await self._poller.until_async(
            lock, attempt, wait_ns, lambda: self._ask(question, meant)
        )

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Set the key's time to live again, if it still has our value."""
        words = ("EVAL", RENEW, 1, grant.lock, grant.attempt, ttl_ns // MILLISECOND)
        return await self._ask(encoded(words), lambda got: _owned(got, ttl_ns))

    async def release(self, grant: Grant) -> Answer:
        """Free it, if it still has our value."""
        words = ("EVAL", RELEASE, 1, grant.lock, grant.attempt)
        return await self._ask(encoded(words), lambda got: _owned(got, 0))

    async def close(self) -> None:
        self._drop()
        if self._timer is not None:
            self._timer.cancel()

    async def _ask(self, question: bytes, meant: Meant) -> Answer:
        """What a number means, with SET's responses as 0 and -1. An error had no effect; after a
        timeout or a break the outcome is unknown, and a late response is not taken for the next."""
        await self._turn.acquire()
        asked = False
        try:
            loop = asyncio.get_running_loop()
            self._until_s = loop.time() + ANSWER_WITHIN_S
            line = self._line
            if line is None:
                async with asyncio.timeout_at(self._until_s):
                    line = await self._connect()
            if self._timer is None:
                self._timer = loop.call_at(self._until_s, self._overdue)
            self._answer = loop.create_future()
            asked = True
            line.ask(question)
            reply = await self._answer
        except (OSError, TimeoutError) as error:
            self._drop()
            outcome = Status.INFO if asked else Status.FAIL
            return Answer(outcome=outcome, error=f"{type(error).__name__}: {error}")
        except asyncio.CancelledError:
            self._drop()
            raise
        finally:
            self._answer = None
            self._turn.release()
        return _read(reply, meant)

    def _overdue(self) -> None:
        """The single timer of all requests: one for each would cost more than the request."""
        self._timer = None
        if self._answer is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._until_s:
            self._timer = loop.call_at(self._until_s, self._overdue)
        elif not self._answer.done():
            self._answer.set_exception(TimeoutError("no answer in time"))

    async def _connect(self) -> Lean:
        line = Lean(lambda said: self._answered(line, said), lambda: self._ended(line))
        await line.connect(self._address, PORT)
        self._line = line
        return line

    def _answered(self, line: Lean, said: bytes) -> None:
        if line is self._line and self._answer is not None and not self._answer.done():
            self._answer.set_result(said)

    def _ended(self, line: Lean) -> None:
        if line is not self._line:
            return
        self._line = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the connection broke"))

    def _drop(self) -> None:
        """Close it for good: a late response belongs to no request."""
        line, self._line = self._line, None
        if line is not None:
            line.close()


def _owned(got: int, ttl_ns: int) -> Answer:
    return Answer(outcome=Status.OK if got else Status.NOT_OWNER, ttl_ns=ttl_ns if got else 0)


def _read(said: bytes, meant: Meant) -> Answer:
    if said == NOT_SET:
        return meant(-1)
    if said == SET:
        return meant(0)
    if said.startswith(b":"):
        return meant(int(said[1:]))
    text = said[1:-2].decode(errors="replace")
    return Answer(outcome=Status.FAIL if said.startswith(b"-") else Status.INFO, error=text)
