"""aetcd's Lock over gRPC."""

from __future__ import annotations

import math

import aetcd

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.etcd import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ANSWER_WITHIN_S = 2
ERRORS: tuple[tuple[type[Exception], Status], ...] = ()


class Subject:
    """A client of one member, another one per client."""

    asyncio = True

    def __init__(self, setup: ClientSetup) -> None:
        address = setup.servers[setup.process % len(setup.servers)][1]
        self._client = aetcd.Client(host=address, port=PORT, timeout=ANSWER_WITHIN_S)

    async def open(self) -> None:
        await self._client.connect()

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return aetcd.locks.Lock(self._client, name.encode(), math.ceil(lease_s or 10))

    async def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        return bool(await lock.acquire(timeout=wait_s))

    async def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        return int((await lock.refresh()).TTL) > 0

    async def release(self, lock: LibraryLock) -> bool:
        return bool(await lock.release())

    async def close(self) -> None:
        await self._client.close()
