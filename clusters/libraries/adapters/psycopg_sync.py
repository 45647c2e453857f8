"""psycopg's blocking connection with an advisory lock; a renewal queries its holder."""

from __future__ import annotations

import time

import psycopg

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.postgres import DATABASE, PORT, USER
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

POLL_S = 0.05
TRY = "select pg_try_advisory_lock(hashtext(%s))"
OURS = (
    "select count(*) > 0 from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
    " and objid::bigint = hashtext(%s)::bigint & 4294967295"
)
FREE = "select pg_advisory_unlock(hashtext(%s))"
ERRORS: tuple[tuple[type[Exception], Status], ...] = ((psycopg.OperationalError, Status.INFO),)


class Subject:
    """One connection, reopened if it is gone. A hold is identified by the server's process."""

    def __init__(self, setup: ClientSetup) -> None:
        self._address = setup.servers[0][1]
        self._open()

    def _open(self) -> None:
        words = f"host={self._address} port={PORT} user={USER} dbname={DATABASE}"
        self._connection = psycopg.connect(words, autocommit=True)

    def lock(self, name: str, attempt: str, lease_s: float | None, wait_s: float | None) -> object:
        if self._connection.closed:
            self._open()
        return name, self._connection

    def acquire(self, lock: object, wait_s: float | None) -> bool:
        until_s = time.monotonic() + (wait_s if wait_s is not None else 1e9)
        while not self._asked(TRY, lock):
            if time.monotonic() >= until_s:
                return False
            time.sleep(POLL_S)
        return True

    def renew(self, lock: object, lease_s: float) -> bool:
        return self._asked(OURS, lock)

    def release(self, lock: object) -> bool:
        return self._asked(FREE, lock)

    def close(self) -> None:
        self._connection.close()

    def _asked(self, words: str, lock: LibraryLock) -> bool:
        name, connection = lock
        return not connection.closed and connection.execute(words, (name,)).fetchone()[0]
