"""python-redis-lock: a key, and a list that wakes waiters; it can renew itself in a thread."""

from __future__ import annotations

import redis
import redis_lock

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.redis import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ANSWER_WITHIN_S = 8.0
"""Longer than the library waits for its list."""
ERRORS = ((redis_lock.NotAcquired, Status.NOT_OWNER), (redis_lock.NotExpirable, Status.FAIL))
"""NotExpirable: the key is the caller's and has no lease, so the renewal has no effect."""


class Subject:
    """One pool of connections; `renew=library` is its `auto_renewal`."""

    def __init__(self, setup: ClientSetup) -> None:
        address = setup.servers[0][1]
        self._auto = setup.options.get("renew") == "library"
        self._redis = redis.StrictRedis(host=address, port=PORT, socket_timeout=ANSWER_WITHIN_S)
        self._redis.ping()
        self._lease_s: float | None = None

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        self._lease_s = lease_s
        renew = self._auto and lease_s is not None
        expire = None if lease_s is None else max(1, int(lease_s))
        return redis_lock.Lock(self._redis, name, expire=expire, auto_renewal=renew)

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        if wait_s == 0:
            return bool(lock.acquire(blocking=False))
        # The library rejects a wait that is longer than the lease.
        longest = wait_s if self._lease_s is None or wait_s is None else min(wait_s, self._lease_s)
        return bool(lock.acquire(timeout=None if longest is None else max(1, int(longest))))

    def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        lock.extend(expire=max(1, int(lease_s)))
        return True

    def release(self, lock: LibraryLock) -> None:
        lock.release()
