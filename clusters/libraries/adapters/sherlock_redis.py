"""sherlock's RedisLock."""

from __future__ import annotations

import redis
import sherlock
from sherlock.lock import LockException, LockTimeoutException

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.redis import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ANSWER_WITHIN_S = 1.0
ERRORS = ((LockTimeoutException, Status.FAIL), (LockException, Status.NOT_OWNER))


class Subject:
    """One pool of connections."""

    def __init__(self, setup: ClientSetup) -> None:
        address = setup.servers[0][1]
        self._redis = redis.StrictRedis(host=address, port=PORT, socket_timeout=ANSWER_WITHIN_S)
        self._redis.ping()

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        expire = None if lease_s is None else max(1, int(lease_s))
        return sherlock.RedisLock(
            name, client=self._redis, expire=expire, timeout=wait_s or 0, retry_interval=0.02
        )

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        return bool(lock.acquire(blocking=wait_s != 0))

    def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        return bool(lock.renew())

    def release(self, lock: LibraryLock) -> None:
        lock.release()
