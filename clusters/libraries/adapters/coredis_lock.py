"""coredis's Lock."""

from __future__ import annotations

import asyncio

import coredis
from coredis.exceptions import LockExtensionError, LockReleaseError
from coredis.patterns.lock import Lock

from holdfast.clusters.libraries.library_lock import LibraryLock, NoLease
from holdfast.clusters.systems.redis import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

LOST = (LockReleaseError, LockExtensionError)
ERRORS = ((NoLease, Status.FAIL), *((kind, Status.NOT_OWNER) for kind in LOST))


class Subject:
    """One client with its pool, entered and left in its own task, as the library requires."""

    asyncio = True

    def __init__(self, setup: ClientSetup) -> None:
        self._client = coredis.Redis(host=setup.servers[0][1], port=PORT)
        self._opened, self._over = asyncio.Event(), asyncio.Event()
        self._living: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._living = asyncio.create_task(self._live())
        await self._opened.wait()

    async def _live(self) -> None:
        async with self._client:
            self._opened.set()
            await self._over.wait()

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        waits = {"blocking": wait_s != 0, "blocking_timeout": wait_s or None}
        return Lock(self._client, name, timeout=lease_s, sleep=0.01, **waits)

    async def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        return bool(await lock.acquire())

    async def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        if lock.timeout is None:
            raise NoLease("this lock was acquired without a lease")
        return bool(await lock.extend(lease_s))

    async def release(self, lock: LibraryLock) -> None:
        await lock.release()

    async def close(self) -> None:
        self._over.set()
        if self._living is not None:
            await self._living
