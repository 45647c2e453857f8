"""The row lock of PostgreSQL over the same protocol, on an existing server."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from holdfast.clusters.systems.cockroachdb import Login, where
from holdfast.clusters.systems.database_client import ASK_S, NoSession, Session, SessionClient
from holdfast.clusters.systems.postgres.row.client import RowLock
from holdfast.clusters.systems.postgres.session import connect
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.ports import ClientSetup

OPEN_S = 15.0
PAUSE_S = 0.2


class GivenRowLock(RowLock):
    """A `Lock`; the first client creates the table."""

    def __init__(self, at: Login) -> None:
        self._at = at
        self._made = False

    async def open(self, address: str, idle_ms: int) -> Session:
        """As `Lock`."""
        at = self._at
        return await connect(address, idle_ms, port=at.port, user=at.user, database=at.database)

    async def prepare(self, session: Session, lock: str) -> None:
        """As `Lock`."""
        if not self._made:
            words = "create table if not exists locks (name text primary key)"
            await session.ask(words, within_s=5 * ASK_S)
            self._made = True
        await super().prepare(session, lock)


class GivenClient(SessionClient):
    """A LockClient that gives up early if no server responds; `client` makes one."""

    def __init__(self, setup: ClientSetup, at: Login) -> None:
        super().__init__(replace(setup, servers=(("given", at.host),)), GivenRowLock(at))
        self._at = at

    async def open(self) -> None:
        """Check that a server responds. EnvironmentFailed after a timeout."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + OPEN_S
        while True:
            try:
                self._spare.append(await self._session())
                break
            except NoSession as error:
                if loop.time() >= until_s:
                    at = f"{self._at.host}:{self._at.port}"
                    raise EnvironmentFailed(
                        f"cockroachdb: connection to {at} failed; Holdfast does not start it: give"
                        f" its address with --set at=HOST:PORT ({error})"
                    ) from error
            await asyncio.sleep(PAUSE_S)
        await super().open()


def client(setup: ClientSetup) -> GivenClient:
    """The client of one worker; nothing is opened yet."""
    return GivenClient(setup, where(setup.options))
