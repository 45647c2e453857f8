"""aioredlock's lock manager over all servers."""

from __future__ import annotations

import asyncio
import time

from aioredlock import Aioredlock, LockAcquiringError, LockError

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.redis import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

POLL_S = 0.05
ERRORS = ((LockAcquiringError, Status.FAIL),)


class Subject:
    """One manager that tries once, with a pool per server; a wait is polling."""

    asyncio = True

    def __init__(self, setup: ClientSetup) -> None:
        servers = [{"host": address, "port": PORT} for _, address in setup.servers]
        self._manager = Aioredlock(servers, retry_count=1)

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return {"name": name, "lease_s": lease_s, "lock": None}

    async def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        until_s = time.monotonic() + (wait_s if wait_s is not None else 1e9)
        while True:
            try:
                lock["lock"] = await self._manager.lock(lock["name"], lock["lease_s"])
                return True
            except LockError:
                if time.monotonic() >= until_s:
                    raise
            await asyncio.sleep(POLL_S)

    async def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        try:
            await self._manager.extend(lock["lock"], lease_s)
        except RuntimeError:
            return False
        return True

    async def release(self, lock: LibraryLock) -> None:
        await self._manager.unlock(lock["lock"])

    async def close(self) -> None:
        await self._manager.destroy()
