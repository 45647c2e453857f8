"""Driver side of CockroachDB: deployed by the user, reached over the PostgreSQL protocol.

Promises: exclusion without faults; progress while clients are partitioned, paused or killed
Does not promise: exclusion under faults: a `SELECT ... FOR UPDATE` lock is in the memory of the
    leaseholder of the row, and may be lost when another node takes over; fencing tokens
Tested with: PostgreSQL 15 instead, over the same protocol; CockroachDB itself was not available
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.clusters.systems.cockroachdb import where
from holdfast.clusters.systems.postgres.row.system import SYSTEM as ROW
from holdfast.clusters.systems.presets import CONNECTION, kept
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises


class CockroachDb:
    """A System without servers of its own; `SYSTEM` is the one."""

    client = "holdfast.clusters.systems.cockroachdb.client:client"
    libraries: Sequence[str] = ROW.libraries
    ports: Sequence[int] = ()

    def promises(self, options: Mapping[str, str]) -> Promises:
        """The promises of any CockroachDB cluster. Raises UsageError."""
        where(options)
        return replace(
            CONNECTION,
            recovery_ns=15 * SECOND,
            keeps=kept(()),
            sheet={
                "owner identity": "the session and its transaction",
                "acquisition": "SELECT ... FOR UPDATE in a transaction that stays open, or NOWAIT",
                "lease": "none; idle_session_timeout ends a session that is silent for a lease"
                " (never with idle=none)",
                "renewal": "any response of the session; the client queries it every <= 300 ms",
                "token enforcement": "none",
                "timeout": "a session that is silent for 1 s is closed by the client",
                "retry": "none; the next attempt opens a session",
                "consequence": "locks are in memory of the row's leaseholder and may be lost if"
                " another node takes over; the transaction may then fail at commit",
                "clock assumptions": "those of the database: clock skew below its maximum offset",
                "evidence": "deployed by the user, without a password; Holdfast injects no faults"
                " on its servers",
            },
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """Raises UsageError: there is nothing to start."""
        raise UsageError("cockroachdb: deployed by its user; expected --nodes 0")

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Always; clients retry until a server responds."""
        return True

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """None: the driver has no nodes of it."""
        return None


SYSTEM = CockroachDb()
