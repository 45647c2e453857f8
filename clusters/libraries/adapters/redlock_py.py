"""redlock-py: Redlock over all servers; it tries three times and has no other wait."""

from __future__ import annotations

import time
from types import SimpleNamespace

from redlock import MultipleRedlockException, Redlock

from holdfast.clusters.libraries.adapters.swallowed import Swallowed
from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.redis import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ANSWER_WITHIN_S = 1.0
ERRORS = ((MultipleRedlockException, Status.INFO),)
"""A majority has granted it then, and keeps it for the lease, but the library returned no lock."""


class Subject:
    """One lock manager as in its examples; a grant is a value that it returns."""

    def __init__(self, setup: ClientSetup) -> None:
        servers = [
            {"host": address, "port": PORT, "db": 0, "socket_timeout": ANSWER_WITHIN_S}
            for _, address in setup.servers
        ]
        self._manager = Redlock(servers)
        self._swallowed = Swallowed(self._manager.servers)

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return SimpleNamespace(name=name, ttl_ms=int((lease_s or 10) * 1000), held=None)

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> float | bool:
        until_s = time.monotonic() + (wait_s if wait_s is not None else 1e9)
        while not lock.held and (lock.held is None or time.monotonic() < until_s):
            self._swallowed.begin()
            lock.held = self._manager.lock(lock.name, lock.ttl_ms)
        return lock.held.validity / 1000 if self._swallowed.judged(bool(lock.held)) else False

    def release(self, lock: LibraryLock) -> bool:
        if not lock.held:
            return False
        self._swallowed.begin()
        self._manager.unlock(lock.held)
        return self._swallowed.judged(True)
