"""Client of a lease that is a row: its owner, and the time until which it is owned.

A grant is one statement, which writes owner and time if the row's time is over. The time comes from
the database or, with `clock=client`, from this client's wall clock. No transaction stays open, so
that a lease outlives the session. An attempt is an owner of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.clusters.systems.database_client import (
    ASK_S,
    DatabaseServers,
    Failed,
    NoSession,
    Session,
)
from holdfast.clusters.systems.polling import EXCLUSIVE_ONLY, HELD, Poller
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.operations import Answer, Grant, Mode, Status
from holdfast.harness.core.ports import ClientSetup

POLL_NS = (20 * MILLISECOND, 80 * MILLISECOND)
MICROSECOND = 1000
LOST = Answer(outcome=Status.NOT_OWNER, error="the row has another owner, or none")


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """The statements of one database; {now} is a time in microseconds.

    open     a session that the server does not end
    now      the database's own time
    take     parameters lock, owner, lease; returns the owner of the row afterwards
    change   parameters owner afterwards, lease, lock, owner
    changed  a further statement that returns the number of changed rows, "" if `change` returns a
             row for each
    """

    open: Callable[[str], Awaitable[Session]]
    now: str
    take: str
    change: str
    changed: str


class RowLease:
    """A LockClient over one session, which is opened again after an error."""

    def __init__(self, setup: ClientSetup, dialect: Dialect) -> None:
        self._servers = DatabaseServers(setup)
        self._name = setup.name
        self._poller = Poller(setup, "lease polls", POLL_NS)
        self._dialect = dialect
        self._own_clock = setup.options.get("clock", "database") == "client"
        self._session: Session | None = None
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Nothing to wait for: the first statement opens a session."""

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        """Polls until the row's time is over or the wait is."""
        if mode is not Mode.EXCLUSIVE:
            return EXCLUSIVE_ONLY
        owner = self._owner(attempt)

        async def poll() -> Answer:
            try:
                async with self._turn:
                    session = await self._opened()
                    words = self._timed(self._dialect.take)
                    lease_us = ttl_ns // MICROSECOND
                    row = await session.ask(words, lock, owner, lease_us, within_s=ASK_S)
            except NoSession as failed:
                return Answer(outcome=Status.FAIL, error=str(failed))
            except Failed as failed:
                rejected = failed.answer.outcome is Status.FAIL
                return failed.answer if rejected else _unknown(failed)
            if row and row[0] == owner:
                return Answer(outcome=Status.OK, ttl_ns=ttl_ns)
            return HELD

        return await self._poller.until_async(lock, attempt, wait_ns, poll)

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Writes a new time; an ok proves that no other attempt was the owner since the grant."""
        return await self._change(grant, self._owner(grant.attempt), ttl_ns)

    async def release(self, grant: Grant) -> Answer:
        """Writes the present time, and no owner."""
        return await self._change(grant, "", 0)

    async def close(self) -> None:
        """Ends the session; a lease runs out."""
        if self._session is not None:
            await self._session.close()

    async def _change(self, grant: Grant, owner: str, ttl_ns: int) -> Answer:
        words, values = self._timed(self._dialect.change), (owner, ttl_ns // MICROSECOND)
        ours, done = self._owner(grant.attempt), False
        try:
            async with self._turn:
                session = await self._opened()
                row = await session.ask(words, *values, grant.lock, ours, within_s=ASK_S)
                if self._dialect.changed:
                    done = True
                    row = await session.ask(self._dialect.changed, within_s=ASK_S)
        except NoSession as failed:
            return Answer(outcome=Status.FAIL, error=str(failed))
        except Failed as failed:
            sure = failed.answer.outcome is Status.FAIL and not done
            return failed.answer if sure else _unknown(failed)
        return Answer(outcome=Status.OK, ttl_ns=ttl_ns) if row and row[0] else LOST

    async def _opened(self) -> Session:
        if self._session is None or self._session.broken:
            self._session = await self._servers.open(self._dialect.open)
        return self._session

    def _timed(self, words: str) -> str:
        """The statement with the time now: the database's expression, or this clock's number."""
        now = str(time.time_ns() // MICROSECOND) if self._own_clock else self._dialect.now
        return words.replace("{now}", now)

    def _owner(self, attempt: int) -> str:
        return f"{self._name}_{attempt}"


def _unknown(failed: Failed) -> Answer:
    """The end of a session says nothing about a lease."""
    return Answer(outcome=Status.INFO, error=str(failed))
