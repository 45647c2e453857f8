"""Client of MariaDB's user locks: GET_LOCK in a session, which owns the name until it ends."""

from __future__ import annotations

from holdfast.clusters.systems.database_client import ASK_S, Session, SessionClient, first
from holdfast.clusters.systems.mariadb.client import LONGEST_S
from holdfast.clusters.systems.mariadb.session import connect
from holdfast.harness.core.ports import ClientSetup


class UserLock:
    """A `Lock`: GET_LOCK is 1 when granted, 0 after a wait that timed out, NULL after an error."""

    next_token = "select nextval(tokens)"

    async def open(self, address: str, idle_ms: int) -> Session:
        """As `Lock`."""
        return await connect(address, idle_ms)

    async def prepare(self, session: Session, lock: str) -> None:
        """Nothing: any name can be locked."""

    async def take(self, session: Session, lock: str, wait_ms: int, within_s: float | None) -> bool:
        """As `Lock`. The server takes fractions of a second as a wait."""
        wait_s = LONGEST_S if wait_ms < 0 else wait_ms / 1000
        return first(await session.ask("select get_lock(%s, %s)", lock, wait_s, within_s=within_s))

    async def give_back(self, session: Session, lock: str) -> bool:
        """As `Lock`: 0 and NULL say that another session has it, or none."""
        return first(await session.ask("select release_lock(%s)", lock, within_s=ASK_S))


def client(setup: ClientSetup) -> SessionClient:
    """The client of one worker; nothing is opened yet."""
    return SessionClient(setup, UserLock())
