"""Client of PostgreSQL row locks: a transaction that has selected a row for update is its owner."""

from __future__ import annotations

from holdfast.clusters.systems.database_client import ASK_S, Session, SessionClient
from holdfast.clusters.systems.postgres.session import AtPrimary
from holdfast.harness.core.ports import ClientSetup

ROW = "select name from locks where name = %s for update"


class RowLock(AtPrimary):
    """A `Lock`: begin, select for update; commit releases it."""

    async def prepare(self, session: Session, lock: str) -> None:
        """Creates the row, because a missing one locks nothing."""
        words = "insert into locks values (%s) on conflict do nothing"
        await session.ask(words, lock, within_s=ASK_S)
        await session.ask("begin", within_s=ASK_S)

    async def take(self, session: Session, lock: str, wait_ms: int, within_s: float | None) -> bool:
        """As `Lock`. A wait that timed out and a failed try raise Failed."""
        if wait_ms == 0:
            await session.ask(f"{ROW} nowait", lock, within_s=within_s)
            return True
        await session.ask(
            "select set_config('lock_timeout', %s, true)", str(max(0, wait_ms)), within_s=ASK_S
        )
        await session.ask(ROW, lock, within_s=within_s)
        return True

    async def give_back(self, session: Session, lock: str) -> bool:
        """As `Lock`: the transaction commits."""
        await session.ask("commit", within_s=ASK_S)
        return True


def client(setup: ClientSetup) -> SessionClient:
    """The client of one worker; nothing is opened yet."""
    return SessionClient(setup, RowLock(setup))
