"""redlock-ng: Redlock over all servers."""

from __future__ import annotations

import time
from types import SimpleNamespace

from redlock import Redlock

from holdfast.clusters.libraries.adapters.swallowed import Swallowed
from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.redis import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ERRORS: tuple[tuple[type[Exception], Status], ...] = ()


class Subject:
    """One lock manager as in its examples; a grant is an object that it returns."""

    def __init__(self, setup: ClientSetup) -> None:
        self._manager = Redlock([f"redis://{address}:{PORT}" for _, address in setup.servers])
        self._swallowed = Swallowed(self._manager.client.instances)

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return SimpleNamespace(name=name, ttl_ms=int((lease_s or 10) * 1000), held=None)

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> float | bool:
        until_s = time.monotonic() + (wait_s if wait_s is not None else 1e9)
        while True:
            self._swallowed.begin()
            lock.held = self._manager.acquire(lock.name, lock.ttl_ms)
            if lock.held:
                return float(lock.held.validity / 1000)
            if time.monotonic() >= until_s:
                return self._swallowed.judged(False)

    def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        self._swallowed.begin()
        return self._swallowed.judged(self._manager.extend(lock.held, int(lease_s * 1000)))

    def release(self, lock: LibraryLock) -> bool:
        if not lock.held:
            return False
        self._swallowed.begin()
        self._manager.release(lock.held)
        return self._swallowed.judged(True)
