"""celery-redbeat: the lock that lets one beat run; celery's start-up signal acquires it."""

from __future__ import annotations

import redbeat
from celery import Celery, signals
from redis.exceptions import LockNotOwnedError

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.redis import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ERRORS = ((LockNotOwnedError, Status.NOT_OWNER),)


class BeatLock:
    """The sender of the signal: redbeat gets its scheduler from it."""

    def __init__(self, scheduler: object) -> None:
        self.scheduler = scheduler


class Subject:
    """One application; an attempt is the start of a beat: celery sends a signal, and it ticks."""

    def __init__(self, setup: ClientSetup) -> None:
        url = f"redis://{setup.servers[0][1]}:{PORT}/0"
        self._app = Celery("holdfast", broker=url)
        self._app.conf.update(redbeat_redis_url=url, beat_max_loop_interval=0.02)

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return redbeat.RedBeatScheduler(
            app=self._app, lazy=True, lock_key=name, lock_timeout=lease_s or 60
        )

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        signals.beat_init.send(sender=BeatLock(lock))
        lock.tick()
        return True

    def renew(self, lock: LibraryLock, lease_s: float) -> None:
        lock.tick()

    def release(self, lock: LibraryLock) -> None:
        lock.close()
