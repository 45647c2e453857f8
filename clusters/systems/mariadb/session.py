"""One session with a MariaDB server through unmodified PyMySQL, and what its errors mean.

The library blocks, so each query has its own thread; a timeout breaks the connection.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import pymysql

from holdfast.clusters.systems.database_client import Failed, NoSession, answered, in_one_line
from holdfast.clusters.systems.mariadb import DATABASE, PORT, USER
from holdfast.harness.core.operations import Answer, Status

CONNECT_S = 1.0

MEANING: dict[int, Status] = {
    1040: Status.FAIL,
    1205: Status.FAIL,
    1213: Status.FAIL,
    1317: Status.FAIL,
    1927: Status.NOT_OWNER,
    1053: Status.NOT_OWNER,
}
"""Error number -> what it means for a lock that lives as long as the session: too many connections,
a wait that timed out, a deadlock, an interrupted statement; the session was killed, the server
stops. Others are INFO: a broken connection does not show whether the server has noticed."""


class MariaSession:
    """A `Session` over one blocking connection; `connect` makes one."""

    def __init__(self, connection: pymysql.Connection) -> None:
        self._connection = connection
        self._turn = asyncio.Lock()

    @property
    def broken(self) -> bool:
        """As `Session`."""
        return not self._connection.open

    @property
    def busy(self) -> bool:
        """As `Session`."""
        return self._turn.locked()

    async def ask(self, words: str, *values: object, within_s: float | None) -> Sequence[object]:
        """As `Session`."""
        async with self._turn:
            asking = asyncio.ensure_future(asyncio.to_thread(self._ask, words, values))
            try:
                return await answered(asking, self.cut, within_s)
            except (pymysql.Error, OSError) as error:
                raise Failed(meant(error)) from error

    def _ask(self, words: str, values: Sequence[object]) -> Sequence[object]:
        with self._connection.cursor() as cursor:
            cursor.execute(words, values or None)
            row: Sequence[object] | None = cursor.fetchone() if cursor.description else None
            return row or ()

    def cut(self) -> None:
        """As `Session`. The library has no such function, so its socket is used."""
        plug: socket.socket | None = self._connection._sock
        if plug is not None:
            try:
                plug.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    async def close(self) -> None:
        """As `Session`."""
        self.cut()
        self._connection._force_close()


async def connect(address: str, idle_ms: int) -> MariaSession:
    """A new session, which the server ends after idle_ms without a query (0: never). Raises
    NoSession.

    The server counts idle time in whole seconds, so it is rounded up.
    """
    opening = asyncio.to_thread(
        pymysql.connect,
        host=address,
        port=PORT,
        user=USER,
        database=DATABASE,
        autocommit=True,
        connect_timeout=CONNECT_S,
    )
    try:
        session = MariaSession(await opening)
        if idle_ms:
            silence_s = -(-idle_ms // 1000)
            words = "set session wait_timeout = %s, session idle_transaction_timeout = %s"
            await session.ask(words, silence_s, silence_s, within_s=CONNECT_S)
    except (pymysql.Error, Failed, OSError) as error:
        raise NoSession(in_one_line(error)) from error
    return session


def meant(error: Exception) -> Answer:
    """What an error means, by the table."""
    number = error.args[0] if error.args else None
    outcome = MEANING.get(number, Status.INFO) if isinstance(number, int) else Status.INFO
    return Answer(outcome=outcome, error=f"{type(error).__name__}: {in_one_line(error)}")
