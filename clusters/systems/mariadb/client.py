"""Client of MariaDB row locks: a transaction that has selected a row for update is its owner."""

from __future__ import annotations

from holdfast.clusters.systems.database_client import ASK_S, Session, SessionClient
from holdfast.clusters.systems.mariadb.session import connect
from holdfast.harness.core.ports import ClientSetup

ROW = "select name from locks where name = %s for update"
LONGEST_S = 100_000_000
"""the longest wait that the server accepts"""


class RowLock:
    """A `Lock`: begin, select for update; commit releases it."""

    next_token = "select nextval(tokens)"

    async def open(self, address: str, idle_ms: int) -> Session:
        """As `Lock`."""
        return await connect(address, idle_ms)

    async def prepare(self, session: Session, lock: str) -> None:
        """Creates the row, because a missing one locks nothing."""
        words = "select name from locks where name = %s"
        if not await session.ask(words, lock, within_s=ASK_S):
            await session.ask("insert ignore into locks values (%s)", lock, within_s=ASK_S)
        await session.ask("begin", within_s=ASK_S)

    async def take(self, session: Session, lock: str, wait_ms: int, within_s: float | None) -> bool:
        """As `Lock`. A wait that timed out and a failed try raise Failed.

        The server counts a wait in whole seconds, so it is rounded down, possibly to no wait.
        """
        wait_s = LONGEST_S if wait_ms < 0 else wait_ms // 1000
        wait = f"wait {wait_s}" if wait_s else "nowait"
        await session.ask(f"{ROW} {wait}", lock, within_s=within_s)
        return True

    async def give_back(self, session: Session, lock: str) -> bool:
        """As `Lock`: the transaction commits."""
        await session.ask("commit", within_s=ASK_S)
        return True


def client(setup: ClientSetup) -> SessionClient:
    """The client of one worker; nothing is opened yet."""
    return SessionClient(setup, RowLock())
