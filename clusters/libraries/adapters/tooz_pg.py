"""tooz on PostgreSQL; a renewal checks whether its lock is still acquired."""

from __future__ import annotations

import time

from tooz import coordination

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.postgres import DATABASE, PORT, USER
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

POLL_S = 0.05
ERRORS: tuple[tuple[type[Exception], Status], ...] = ()


class Subject:
    """One coordinator; its locks open their own connections. It waits forever, or not at all."""

    def __init__(self, setup: ClientSetup) -> None:
        url = f"postgresql://{USER}@{setup.servers[0][1]}:{PORT}/{DATABASE}"
        self._coordinator = coordination.get_coordinator(url, setup.name.encode())
        self._coordinator.start()

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return self._coordinator.get_lock(name.encode())

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        until_s = time.monotonic() + (wait_s if wait_s is not None else 1e9)
        while not lock.acquire(blocking=False):
            if time.monotonic() >= until_s:
                return False
            time.sleep(POLL_S)
        return True

    def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        return bool(lock.acquired)

    def release(self, lock: LibraryLock) -> bool:
        return bool(lock.release())

    def close(self) -> None:
        self._coordinator.stop()
