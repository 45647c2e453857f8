"""Driver side of PostgreSQL row locks.

Promises: exclusion under every fault; the promises about sessions in `postgres/system.py`
Does not promise: fencing, except with `tokens=sequence`, where a crash may repeat a number whose
transaction had not committed
Tested with: Debian's PostgreSQL 15 and psycopg 3.3.9
"""

from __future__ import annotations

from holdfast.clusters.systems.postgres.system import PostgresSystem

SYSTEM = PostgresSystem(
    name="postgres-row",
    client="holdfast.clusters.systems.postgres.row.client:client",
    scopes={"transaction": "SELECT ... FOR UPDATE in a transaction that stays open, or NOWAIT"},
    in_tx=("transaction",),
)
