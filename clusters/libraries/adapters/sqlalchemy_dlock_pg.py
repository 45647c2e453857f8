"""sqlalchemy-dlock on PostgreSQL; a renewal checks whether it is still locked."""

from __future__ import annotations

from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError
from sqlalchemy_dlock import create_sadlock

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.postgres import DATABASE, PORT, USER
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ERRORS: tuple[tuple[type[Exception], Status], ...] = ((OperationalError, Status.INFO),)


class Subject:
    """An engine with its pool; each attempt takes its own connection, as in the examples."""

    def __init__(self, setup: ClientSetup) -> None:
        address = setup.servers[0][1]
        self.engine = create_engine(f"postgresql+psycopg://{USER}@{address}:{PORT}/{DATABASE}")

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return create_sadlock(self.engine.connect(), name, contextual_timeout=wait_s)

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        try:
            granted = lock.acquire(block=wait_s != 0, timeout=wait_s, interval=0.2)
        except BaseException:
            lock.connection_or_session.close()
            raise
        if not granted:
            lock.connection_or_session.close()
        return bool(granted)

    def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        return bool(lock.locked)

    def release(self, lock: LibraryLock) -> None:
        try:
            lock.release()
        finally:
            lock.connection_or_session.close()
