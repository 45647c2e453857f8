"""sqlalchemy-dlock on PostgreSQL, also its shared locks."""

from __future__ import annotations

from sqlalchemy_dlock import create_sadlock

from holdfast.clusters.libraries.adapters import sqlalchemy_dlock_pg
from holdfast.clusters.libraries.library_lock import LibraryLock

ERRORS = sqlalchemy_dlock_pg.ERRORS


class Subject(sqlalchemy_dlock_pg.Subject):
    """An engine with its pool; each attempt takes its own connection."""

    def lock(
        self,
        name: str,
        attempt: str,
        lease_s: float | None,
        wait_s: float | None,
        mode: str = "exclusive",
    ) -> LibraryLock:
        shared = mode == "shared"
        connection = self.engine.connect()
        return create_sadlock(connection, name, contextual_timeout=wait_s, shared=shared)
