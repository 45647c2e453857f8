"""pottery's Redlock over all servers."""

from __future__ import annotations

import redis
from pottery import QuorumNotAchieved, Redlock, ReleaseUnlockedLock
from pottery.exceptions import ExtendUnlockedLock, TooManyExtensions

from holdfast.clusters.libraries.adapters.pottery_errors import unless_a_server_failed
from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.redis import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ANSWER_WITHIN_S = 1.0
# Without raise_on_redis_errors a majority of servers that fail looks like a lock that is held.
ERRORS = (
    (QuorumNotAchieved, Status.FAIL),
    (TooManyExtensions, Status.FAIL),
    (ExtendUnlockedLock, unless_a_server_failed),
    (ReleaseUnlockedLock, unless_a_server_failed),
)


class Subject:
    """One pool of connections per server."""

    def __init__(self, setup: ClientSetup) -> None:
        self._masters = {
            redis.Redis(host=address, port=PORT, socket_timeout=ANSWER_WITHIN_S)
            for _, address in setup.servers
        }

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return Redlock(
            key=name, masters=self._masters, auto_release_time=lease_s or 10,
            context_manager_timeout=-1 if wait_s is None else wait_s,
        )  # fmt: skip

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        longest = -1 if wait_s is None else wait_s
        if wait_s == 0:
            return bool(lock.acquire(blocking=False, raise_on_redis_errors=True))
        return bool(lock.acquire(timeout=longest, raise_on_redis_errors=True))

    def renew(self, lock: LibraryLock, lease_s: float) -> None:
        lock.extend()

    def release(self, lock: LibraryLock) -> None:
        lock.release()
