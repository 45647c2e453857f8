"""The statements of a row lease on PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

from holdfast.clusters.systems.database_client import Session
from holdfast.clusters.systems.postgres.session import PRIMARY, connect
from holdfast.clusters.systems.sql_lease.client import Dialect, RowLease
from holdfast.harness.core.ports import ClientSetup


async def _open(address: str) -> Session:
    return await connect(address, 0)


async def _open_primary(address: str) -> Session:
    return await connect(address, 0, target=PRIMARY)


DIALECT = Dialect(
    open=_open,
    now="(extract(epoch from clock_timestamp()) * 1000000)::bigint",
    take="insert into leases (name, owner, until_us) values (%s, %s, {now} + %s::bigint)"
    " on conflict (name) do update set owner = excluded.owner, until_us = excluded.until_us"
    " where leases.until_us <= {now} returning owner",
    change="update leases set owner = %s, until_us = {now} + %s::bigint"
    " where name = %s and owner = %s returning 1",
    changed="",
)


def client(setup: ClientSetup) -> RowLease:
    """The client of one worker; nothing is opened yet."""
    alone = len(setup.servers) == 1
    return RowLease(setup, DIALECT if alone else replace(DIALECT, open=_open_primary))
