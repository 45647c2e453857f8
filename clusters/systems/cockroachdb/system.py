"""CockroachDB as the driver sees it: its user deploys it; it is reached over PostgreSQL's wire.

Promises: exclusion where nothing goes wrong; progress while clients are cut off, stopped or killed
Does not promise: exclusion under faults, for a lock of `SELECT ... FOR UPDATE` is kept in memory by
    whoever serves the row, and may be lost when another node takes that over; any fencing token
Tested with: PostgreSQL 15 in its place, over the same wire; no CockroachDB was at hand
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.clusters.systems.cockroachdb import where
from holdfast.clusters.systems.postgres.row.system import SYSTEM as ROW
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import Command, Node, Place
from holdfast.harness.core.verdict import Promises

REACHED = ("partition", "pause", "kill")


class CockroachDb:
    """A System without servers of its own; `SYSTEM` is the one."""

    client = "holdfast.clusters.systems.cockroachdb.client:client"
    libraries: Sequence[str] = ROW.libraries
    ports: Sequence[int] = ()

    def promises(self, options: Mapping[str, str]) -> Promises:
        """What holds on any cluster of theirs. Raises UsageError."""
        where(options)
        return Promises(
            purpose="correctness",
            bound="connection",
            renew_proves=True,
            release_proves=True,
            release_once=True,
            slip_ns=0,
            drift_ppm=0,
            tokens="none",
            tokens_unique=False,
            order="racing",
            notice_ns=4 * SECOND,
            recovery_ns=15 * SECOND,
            keeps={
                "mutual-exclusion": (),
                "ownership": (),
                "deadlock-freedom": REACHED,
                "orphan-freedom": REACHED,
                "no-hung-request": ("any",),
            },
            sheet={
                "owner identity": "the session and its transaction",
                "acquisition": "SELECT ... FOR UPDATE in a transaction that stays open, or NOWAIT",
                "lease": "none; idle_session_timeout ends a session that is silent for a lease"
                " (never with idle=none)",
                "renewal": "any answer of the session; the client asks every 300 ms or more often",
                "token enforcement": "none",
                "timeout": "a session that is silent for 1 s is closed by the client",
                "retry": "none; the next attempt opens a session",
                "consequence": "locks are kept by the node that serves the row and may be lost when"
                " another one takes over; the transaction may then fail at its end",
                "clock assumptions": "those of the database: clocks apart by less than its offset",
                "evidence": "deployed by its user, without a password; nothing on its servers is"
                " faulted by Holdfast",
            },
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """Raises UsageError: there is nothing to start."""
        raise UsageError("cockroachdb: it is deployed by its user; it runs on no nodes")

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Nobody is waited for; clients ask until somebody answers."""
        return True

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> str | None:
        """None of its nodes is ours."""
        return None


SYSTEM = CockroachDb()
