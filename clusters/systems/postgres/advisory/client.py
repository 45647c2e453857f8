"""Client of PostgreSQL advisory locks: a number that one session, or one transaction, can hold."""

from __future__ import annotations

from holdfast.clusters.systems.database_client import ASK_S, Session, SessionClient, first
from holdfast.clusters.systems.postgres.session import AtPrimary
from holdfast.harness.core.ports import ClientSetup

KEY = "hashtextextended(%s, 0)"


class SessionScope(AtPrimary):
    """`pg_advisory_lock`: held until it is unlocked or the session ends. A `Lock`.

    shared  by `pg_advisory_lock_shared`, which conflicts with exclusive ones only
    """

    def __init__(self, setup: ClientSetup, *, shared: bool) -> None:
        super().__init__(setup)
        self._kind = "_shared" if shared else ""

    async def prepare(self, session: Session, lock: str) -> None:
        """Nothing: the longest wait is a setting of the session, sent with the query itself."""

    async def take(self, session: Session, lock: str, wait_ms: int, within_s: float | None) -> bool:
        """As `Lock`. A wait that timed out raises Failed."""
        if wait_ms == 0:
            words = f"select pg_try_advisory_lock{self._kind}({KEY})"
            return first(await session.ask(words, lock, within_s=within_s))
        await session.ask(
            "select set_config('lock_timeout', %s, false)", str(max(0, wait_ms)), within_s=ASK_S
        )
        await session.ask(f"select pg_advisory_lock{self._kind}({KEY})", lock, within_s=within_s)
        return True

    async def give_back(self, session: Session, lock: str) -> bool:
        """As `Lock`."""
        words = f"select pg_advisory_unlock{self._kind}({KEY})"
        return first(await session.ask(words, lock, within_s=ASK_S))


class TransactionScope(AtPrimary):
    """`pg_advisory_xact_lock`: held until its transaction ends. A `Lock`.

    shared  by `pg_advisory_xact_lock_shared`, which conflicts with exclusive ones only
    """

    def __init__(self, setup: ClientSetup, *, shared: bool) -> None:
        super().__init__(setup)
        self._kind = "_shared" if shared else ""

    async def prepare(self, session: Session, lock: str) -> None:
        """Begins the transaction that will hold it."""
        await session.ask("begin", within_s=ASK_S)

    async def take(self, session: Session, lock: str, wait_ms: int, within_s: float | None) -> bool:
        """As `Lock`. A wait that timed out raises Failed."""
        if wait_ms == 0:
            words = f"select pg_try_advisory_xact_lock{self._kind}({KEY})"
            if first(await session.ask(words, lock, within_s=within_s)):
                return True
            await session.ask("rollback", within_s=ASK_S)
            return False
        await session.ask(
            "select set_config('lock_timeout', %s, true)", str(max(0, wait_ms)), within_s=ASK_S
        )
        await session.ask(
            f"select pg_advisory_xact_lock{self._kind}({KEY})", lock, within_s=within_s
        )
        return True

    async def give_back(self, session: Session, lock: str) -> bool:
        """As `Lock`: the transaction commits."""
        await session.ask("commit", within_s=ASK_S)
        return True


def client(setup: ClientSetup) -> SessionClient:
    """The client of one worker; nothing is opened yet."""
    by_session = setup.options.get("scope", "session") == "session"
    scope = SessionScope if by_session else TransactionScope
    return SessionClient(setup, scope(setup, shared=False), scope(setup, shared=True))
