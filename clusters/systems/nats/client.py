"""A lock as a key of a JetStream bucket, through unmodified nats-py; the bucket's age is the lease.

An acquire creates the key, a renewal writes it again on the condition that our write is still its
newest, a release deletes it on the same condition. A revision is the number of a write in the
bucket's log; that of the creation is the token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import quote

import nats
import nats.errors
import nats.js.errors
from nats.js.api import StorageType

from holdfast.clusters.systems.nats import BUCKET, PORT
from holdfast.clusters.systems.polling import EXCLUSIVE_ONLY, HELD, Poller
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.operations import Answer, Grant, Mode, Status
from holdfast.harness.core.ports import CLIENT, ClientSetup

T = TypeVar("T")

ANSWER_S = 1.0
OPEN_S = 45.0
"""for the bucket; a restarted client may have to wait for an election"""
POLL_NS = (10 * MILLISECOND, 50 * MILLISECOND)
PAUSE_S = 0.2
WRONG_SEQUENCE = (10071, 10164)
"""The server's error numbers for: this write is not the newest of its key."""

MEANING: tuple[tuple[type[Exception], Status], ...] = (
    (nats.js.errors.NoStreamResponseError, Status.FAIL),
    (nats.js.errors.KeyNotFoundError, Status.FAIL),
    (nats.js.errors.BadRequestError, Status.FAIL),
    (nats.errors.OutboundBufferLimitError, Status.FAIL),
    (nats.errors.MaxPayloadError, Status.FAIL),
    (nats.errors.TimeoutError, Status.INFO),
    (nats.errors.ConnectionClosedError, Status.INFO),
    (nats.js.errors.ServiceUnavailableError, Status.INFO),
)
"""Error -> what it means for a write. Others are INFO. While disconnected the library buffers
writes and sends them later, so a write that was given up may still take effect."""


def key_of(lock: str) -> str:
    """The key of a lock of any name: keys have letters, digits and few signs, and a dot ends a
    part of the subject. `a b` is `a=20b`."""
    return quote(lock, safe="").replace(".", "%2E").replace("~", "%7E").replace("%", "=")


class NatsLock:
    """A LockClient with one connection to any server that responds; `client` makes one."""

    wire = CLIENT

    def __init__(self, setup: ClientSetup) -> None:
        self._setup = setup
        self._poller = Poller(setup, "nats polls", POLL_NS)
        self._nats: Any = None
        self._bucket: Any = None
        self._newest: dict[int, int] = {}
        """attempt -> the revision of its last write with a response"""

    async def open(self) -> None:
        """Connects, and creates the bucket if it does not exist. TimeoutError after OPEN_S."""
        async with asyncio.timeout(OPEN_S):
            self._nats = await nats.connect(
                [f"nats://{address}:{PORT}" for _, address in self._setup.servers],
                connect_timeout=ANSWER_S,
                reconnect_time_wait=PAUSE_S,
                max_reconnect_attempts=-1,
                ping_interval=1,
                max_outstanding_pings=2,
                error_cb=_quiet,
            )
            while self._bucket is None:
                try:
                    self._bucket = await self._nats.jetstream(timeout=ANSWER_S).create_key_value(
                        bucket=BUCKET,
                        history=1,
                        ttl=self._setup.lease_ns / SECOND,
                        storage=StorageType.FILE,
                        replicas=len(self._setup.servers),
                    )
                except nats.errors.Error:
                    await asyncio.sleep(PAUSE_S)

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        """Polls until the key is created or the wait is over. The lease is the bucket's."""
        if mode is not Mode.EXCLUSIVE:
            return EXCLUSIVE_ONLY
        return await self._poller.until_async(
            lock, attempt, wait_ns, lambda: self._create(lock, attempt)
        )

    async def _create(self, lock: str, attempt: int) -> Answer:
        try:
            revision = await _heard(self._bucket.create(key_of(lock), str(attempt).encode()))
        except nats.js.errors.KeyWrongLastSequenceError:
            return HELD
        except (nats.errors.Error, OSError) as error:
            return _answer(error)
        self._newest[attempt] = revision
        return Answer(outcome=Status.OK, token=revision, ttl_ns=self._setup.lease_ns)

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Writes the key again: ok proves that no other client wrote it and it never expired."""
        value = str(grant.attempt).encode()

        async def write(revision: int) -> None:
            written = self._bucket.update(key_of(grant.lock), value, revision)
            self._newest[grant.attempt] = await _heard(written)

        answer = await self._if_ours(grant, write)
        if answer.outcome is not Status.OK:
            return answer
        return Answer(outcome=Status.OK, ttl_ns=self._setup.lease_ns)

    async def release(self, grant: Grant) -> Answer:
        """Deletes the key on the same condition."""

        async def delete(revision: int) -> None:
            await _heard(self._bucket.delete(key_of(grant.lock), last=revision))

        answer = await self._if_ours(grant, delete)
        self._newest.pop(grant.attempt, None)
        return answer

    async def _if_ours(self, grant: Grant, write: Callable[[int], Awaitable[None]]) -> Answer:
        """Writes over our newest revision. A write without a response may be newer: it is looked
        up.

        No other attempt writes our value, and none of our later writes creates a key; so a key that
        has our value has had it since the grant.
        """
        revision = self._newest.get(grant.attempt, 0)
        for _ in range(2):
            if not revision:
                break
            try:
                await write(revision)
                return Answer(outcome=Status.OK)
            except nats.js.errors.APIError as error:
                if not _is_late(error):
                    return _answer(error)
            except (nats.errors.Error, OSError) as error:
                return _answer(error)
            try:
                entry = await _heard(self._bucket.get(key_of(grant.lock)))
            except (nats.js.errors.KeyNotFoundError, nats.js.errors.KeyDeletedError):
                break
            except (nats.errors.Error, OSError) as error:
                return Answer(outcome=Status.INFO, error=_said(error))
            ours = entry.value == str(grant.attempt).encode()
            revision = entry.revision if ours and entry.revision > revision else 0
        return Answer(outcome=Status.NOT_OWNER, error="a newer write, or none")

    async def close(self) -> None:
        """Closes the connection; keys expire."""
        if self._nats is not None:
            await self._nats.close()


async def _heard(asked: Awaitable[T]) -> T:
    """What the library returns. CancelledError if the caller was cancelled meanwhile.

    The library waits by `asyncio.wait_for`, which before Python 3.12 drops a cancellation that
    comes together with the result.
    """
    try:
        return await asked
    finally:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError


async def _quiet(error: Exception) -> None:
    """Drops errors that the library would print from the background; calls report them."""


def _is_late(error: Exception) -> bool:
    """Whether a write was rejected because there is a newer one, or none any more."""
    if isinstance(error, nats.js.errors.KeyWrongLastSequenceError):
        return True
    return getattr(error, "err_code", None) in WRONG_SEQUENCE


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _answer(error: Exception) -> Answer:
    """What an error means, by the table."""
    outcome = next((meaning for kind, meaning in MEANING if isinstance(error, kind)), Status.INFO)
    return Answer(outcome=outcome, error=_said(error))


def client(setup: ClientSetup) -> NatsLock:
    """A client of all servers."""
    return NatsLock(setup)
