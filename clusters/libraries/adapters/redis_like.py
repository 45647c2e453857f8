"""The Lock of redis-py and of its forks, as shipped except for a socket timeout.

An adapter names its library's classes; it imports the library, and this module does not.
"""

from __future__ import annotations

from typing import Any

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.redis import PORT
from holdfast.harness.core.ports import ClientSetup

ANSWER_WITHIN_S = 1.0


class _RedisLike:
    """Shared by both interfaces: `connect` makes a client with its pool of connections, `refused`
    is its error for rejections of a lock, and `lost` the one for a lock that is not ours."""

    connect: Any
    refused: type[Exception]
    lost: type[Exception]

    def __init__(self, setup: ClientSetup) -> None:
        address = setup.servers[0][1]
        self._client = self.connect(host=address, port=PORT, socket_timeout=ANSWER_WITHIN_S)

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return self._client.lock(
            name, timeout=lease_s, sleep=0.01, blocking_timeout=wait_s, thread_local=False
        )


class BlockingLocks(_RedisLike):
    """Blocking interface. A rejection is "not granted" of a `with`, "not ours" of a release."""

    def __init__(self, setup: ClientSetup) -> None:
        super().__init__(setup)
        self._client.ping()

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        return bool(lock.acquire(blocking=wait_s != 0, blocking_timeout=wait_s))

    def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        try:
            return bool(lock.reacquire())
        except self.lost:
            return False

    def release(self, lock: LibraryLock) -> bool:
        try:
            lock.release()
        except self.refused:
            return False
        return True

    def close(self) -> None:
        self._client.close()


class AsyncioLocks(_RedisLike):
    """Coroutine interface, with the same errors."""

    asyncio = True

    async def open(self) -> None:
        await self._client.ping()

    async def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        return bool(await lock.acquire(blocking=wait_s != 0, blocking_timeout=wait_s))

    async def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        try:
            return bool(await lock.reacquire())
        except self.lost:
            return False

    async def release(self, lock: LibraryLock) -> bool:
        try:
            await lock.release()
        except self.refused:
            return False
        return True

    async def close(self) -> None:
        await self._client.close()
