"""SQLAlchemy's pool of connections with an advisory lock in one: closing it ends the hold."""

from __future__ import annotations

import time
from types import SimpleNamespace

from sqlalchemy import create_engine, text

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.postgres import DATABASE, PORT, USER
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

POLL_S = 0.05
TRY = text("select pg_try_advisory_lock(hashtext(:name))")
ERRORS: tuple[tuple[type[Exception], Status], ...] = ()


class Subject:
    """An engine as `create_engine` makes it. A hold is a connection; closing it ends the hold."""

    def __init__(self, setup: ClientSetup) -> None:
        address = setup.servers[0][1]
        self._engine = create_engine(f"postgresql+psycopg://{USER}@{address}:{PORT}/{DATABASE}")

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return SimpleNamespace(name=name, connection=self._engine.connect())

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        until_s = time.monotonic() + (wait_s if wait_s is not None else 1e9)
        while not lock.connection.execute(TRY, {"name": lock.name}).scalar_one():
            if time.monotonic() >= until_s:
                lock.connection.close()
                return False
            time.sleep(POLL_S)
        return True

    def release(self, lock: LibraryLock) -> None:
        lock.connection.close()
