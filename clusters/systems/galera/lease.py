"""Client of a row lease on a Galera cluster: each session is with any server of the majority."""

from __future__ import annotations

from dataclasses import replace

from holdfast.clusters.systems.database_client import Session
from holdfast.clusters.systems.galera.session import open_at
from holdfast.clusters.systems.sql_lease.client import RowLease
from holdfast.clusters.systems.sql_lease.mariadb import DIALECT
from holdfast.harness.core.ports import ClientSetup


def client(setup: ClientSetup) -> RowLease:
    """The client of one worker; nothing is opened yet."""
    sync_wait = int(setup.options.get("sync_wait", "7"))
    retries = int(setup.options.get("retry", "0"))

    async def opened(address: str) -> Session:
        return await open_at(address, 0, sync_wait, retries)

    return RowLease(setup, replace(DIALECT, open=opened))
