"""Driver side of PostgreSQL advisory locks.

Promises: exclusion under every fault; the promises about sessions in `postgres/system.py`
Does not promise: fencing, except with `tokens=sequence`; with `scope=transaction` a crash may
repeat a number whose transaction had not committed
Tested with: Debian's PostgreSQL 15 and psycopg 3.3.9
"""

from __future__ import annotations

from holdfast.clusters.systems.postgres.system import PostgresSystem

SYSTEM = PostgresSystem(
    name="postgres-advisory",
    client="holdfast.clusters.systems.postgres.advisory.client:client",
    scopes={
        "session": "pg_advisory_lock with a lock_timeout, or pg_try_advisory_lock",
        "transaction": "pg_advisory_xact_lock in a transaction that stays open, or its try",
    },
    in_tx=("transaction",),
    able=("shared",),
)
