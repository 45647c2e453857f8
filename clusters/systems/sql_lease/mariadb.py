"""The statements of a row lease on MariaDB."""

from __future__ import annotations

from holdfast.clusters.systems.database_client import Session
from holdfast.clusters.systems.mariadb.session import connect
from holdfast.clusters.systems.sql_lease.client import Dialect, RowLease
from holdfast.harness.core.ports import ClientSetup


async def _open(address: str) -> Session:
    return await connect(address, 0)


DIALECT = Dialect(
    open=_open,
    now="cast(unix_timestamp(sysdate(6)) * 1000000 as signed)",
    # Assignments take effect from left to right: the second one sees the new owner.
    take="insert into leases (name, owner, until_us) values (%s, %s, {now} + %s)"
    " on duplicate key update owner = if(until_us <= {now}, values(owner), owner),"
    " until_us = if(owner = values(owner), values(until_us), until_us) returning owner",
    change="update leases set owner = %s, until_us = {now} + %s where name = %s and owner = %s",
    changed="select row_count()",
)


def client(setup: ClientSetup) -> RowLease:
    """The client of one worker; nothing is opened yet."""
    return RowLease(setup, DIALECT)
