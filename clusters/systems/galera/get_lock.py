"""Client of GET_LOCK on a Galera cluster: the name is locked on the session's own server only."""

from __future__ import annotations

from dataclasses import replace

from holdfast.clusters.systems.database_client import Session, SessionClient
from holdfast.clusters.systems.galera.session import open_at
from holdfast.clusters.systems.mariadb.get_lock import UserLock
from holdfast.harness.core.ports import ClientSetup


class ClusterUserLock(UserLock):
    """A `Lock` in a session with one server of the majority."""

    async def open(self, address: str, idle_ms: int) -> Session:
        """As `Lock`."""
        return await open_at(address, idle_ms, 0, 0)


def client(setup: ClientSetup) -> SessionClient:
    """The client of one worker; nothing is opened yet."""
    first = setup.options.get("servers", "any") == "first"
    servers = setup.servers[:1] if first else setup.servers
    return SessionClient(replace(setup, servers=servers), ClusterUserLock())
