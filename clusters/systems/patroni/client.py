"""The row lease of `postgres-lease`, at whichever database server is the primary."""

from __future__ import annotations

from dataclasses import replace

from holdfast.clusters.systems.patroni import DATA
from holdfast.clusters.systems.sql_lease.client import RowLease
from holdfast.clusters.systems.sql_lease.postgres import client as lease
from holdfast.harness.core.ports import ClientSetup


def client(setup: ClientSetup) -> RowLease:
    """The client of one worker; nothing is opened yet."""
    servers = [(name, address) for name, address in setup.servers if name in DATA]
    return lease(replace(setup, servers=servers))
