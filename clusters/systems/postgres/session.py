"""One session with a PostgreSQL server through unmodified psycopg, and what its errors mean.

No call waits forever: a query timeout breaks the connection, which ends a lock that lives as long
as its session.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors

from holdfast.clusters.systems.database_client import (
    Failed,
    NoSession,
    Session,
    answered,
    in_one_line,
)
from holdfast.clusters.systems.postgres import DATABASE, PORT, USER
from holdfast.harness.core.operations import Answer, Status
from holdfast.harness.core.ports import ClientSetup

if TYPE_CHECKING:
    from psycopg.rows import TupleRow

CONNECT_S = 1.0
ANY, PRIMARY = "any", "primary"
"""Values of target_session_attrs of libpq."""
NEXT_TOKEN = "select nextval('tokens')"

MEANING: tuple[tuple[type[Exception], Status], ...] = (
    (errors.LockNotAvailable, Status.FAIL),
    (errors.QueryCanceled, Status.FAIL),
    (errors.DeadlockDetected, Status.FAIL),
    (errors.SerializationFailure, Status.FAIL),
    (errors.TooManyConnections, Status.FAIL),
    (errors.CannotConnectNow, Status.FAIL),
    (errors.IdleSessionTimeout, Status.NOT_OWNER),
    (errors.IdleInTransactionSessionTimeout, Status.NOT_OWNER),
    (errors.AdminShutdown, Status.NOT_OWNER),
    (errors.CrashShutdown, Status.NOT_OWNER),
)
"""Error -> what it means for a lock that lives as long as the session. Others are INFO: a broken
connection does not show whether the server has noticed yet."""


class PostgresSession:
    """A `Session` over one asynchronous connection; `connect` makes one."""

    def __init__(self, connection: psycopg.AsyncConnection[TupleRow]) -> None:
        self._connection = connection
        self._turn = asyncio.Lock()

    @property
    def broken(self) -> bool:
        """As `Session`."""
        return bool(self._connection.closed)

    @property
    def busy(self) -> bool:
        """As `Session`."""
        return self._turn.locked()

    async def ask(self, words: str, *values: object, within_s: float | None) -> Sequence[object]:
        """As `Session`."""
        async with self._turn:
            asking = asyncio.ensure_future(self._ask(words, values))
            try:
                return await answered(asking, self.cut, within_s)
            except psycopg.Error as error:
                raise Failed(meant(error)) from error

    async def _ask(self, words: str, values: Sequence[object]) -> Sequence[object]:
        cursor = await self._connection.execute(words, values)
        row = await cursor.fetchone() if cursor.description else None
        return row or ()

    def cut(self) -> None:
        """As `Session`."""
        if self._connection.closed:
            return
        with socket.socket(fileno=socket.dup(self._connection.fileno())) as plug:
            try:
                plug.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    async def close(self) -> None:
        """As `Session`."""
        self.cut()
        await self._connection.close()


class AtPrimary:
    """Part of a `Lock`: opens its sessions at the only server, or at the primary of several."""

    next_token = NEXT_TOKEN

    def __init__(self, setup: ClientSetup) -> None:
        self._target = ANY if len(setup.servers) == 1 else PRIMARY

    async def open(self, address: str, idle_ms: int) -> Session:
        """As `Lock`."""
        return await connect(address, idle_ms, target=self._target)


async def connect(
    address: str,
    idle_ms: int,
    *,
    port: int = PORT,
    user: str = USER,
    database: str = DATABASE,
    target: str = ANY,
) -> PostgresSession:
    """A new session; the server ends it after idle_ms of silence (0: never). Raises NoSession.

    target   PRIMARY: a standby is refused, by libpq itself
    """
    opening = psycopg.AsyncConnection.connect(
        host=address,
        port=port,
        user=user,
        dbname=database,
        sslmode="disable",
        gssencmode="disable",
        autocommit=True,
        prepare_threshold=None,
        target_session_attrs=target,
    )
    try:
        async with asyncio.timeout(CONNECT_S):
            session = PostgresSession(await opening)
        for setting in ("idle_session_timeout", "idle_in_transaction_session_timeout"):
            words = "select set_config(%s, %s, false)"
            await session.ask(words, setting, str(idle_ms), within_s=CONNECT_S)
    except (psycopg.Error, Failed, OSError, TimeoutError) as error:
        raise NoSession(in_one_line(error) or "no connection in time") from error
    return session


def meant(error: psycopg.Error) -> Answer:
    """What an error means, by the table."""
    outcome = next((meaning for kind, meaning in MEANING if isinstance(error, kind)), Status.INFO)
    return Answer(outcome=outcome, error=f"{type(error).__name__}: {in_one_line(error)}")
