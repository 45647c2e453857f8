"""A session with one server of a Galera cluster, and what its errors mean there."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.clusters.systems.database_client import Failed, NoSession, Session
from holdfast.clusters.systems.galera import NOT_READY
from holdfast.clusters.systems.mariadb.session import connect
from holdfast.harness.core.operations import Answer, Status

READY_S = 1.0
SETTINGS = "set session wsrep_sync_wait = %s, session wsrep_retry_autocommit = %s"
DEADLOCK = 1213
UNSURE = (f"({NOT_READY},", f"({DEADLOCK},")
"""How the library begins the text of these errors."""


class GaleraSession:
    """A `Session` with one server, closed when that server leaves the majority.

    A statement that was rejected in certification, or by a server without a majority, may have been
    replicated before if the group changed meanwhile: its outcome is unknown.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def broken(self) -> bool:
        """As `Session`."""
        return self._session.broken

    @property
    def busy(self) -> bool:
        """As `Session`."""
        return self._session.busy

    async def ask(self, words: str, *values: object, within_s: float | None) -> Sequence[object]:
        """As `Session`."""
        try:
            return await self._session.ask(words, *values, within_s=within_s)
        except Failed as failed:
            error = failed.answer.error
            if UNSURE[0] in error:
                self._session.cut()
            if any(number in error for number in UNSURE):
                raise Failed(Answer(outcome=Status.INFO, error=error)) from failed
            raise

    def cut(self) -> None:
        """As `Session`."""
        self._session.cut()

    async def close(self) -> None:
        """As `Session`."""
        await self._session.close()


async def open_at(address: str, idle_ms: int, sync_wait: int, retries: int) -> GaleraSession:
    """A session with a server in the majority. Raises NoSession.

    sync_wait  which statements first wait until the server has applied all earlier writes of the
               cluster: a bit mask (wsrep_sync_wait)
    retries    how often the server repeats a statement that the cluster rejected
               (wsrep_retry_autocommit)
    """
    session = await connect(address, idle_ms)
    try:
        row = await session.ask("show status like 'wsrep_ready'", within_s=READY_S)
        if not row or row[1] != "ON":
            raise NoSession(f"{address} is not in a component with a majority")
        await session.ask(SETTINGS, sync_wait, retries, within_s=READY_S)
    except (Failed, NoSession) as error:
        await session.close()
        raise NoSession(str(error)) from error
    return GaleraSession(session)
