"""Driver side of leases that are rows: one database server, a time in a table.

Promises: exclusion while no wall clock steps: the database's, or with `clock=client` the clients'
Does not promise: exclusion under clock faults, fencing tokens, loss notification
Tested with: Debian's PostgreSQL 15 and MariaDB 10.11, psycopg 3.3.9 and PyMySQL 1.2.4
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.clusters.systems.mariadb.system import SYSTEM as MARIADB_SERVER
from holdfast.clusters.systems.mariadb.system import MariaSystem
from holdfast.clusters.systems.operations import KeepsFiles
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.postgres.row.system import SYSTEM as POSTGRES_SERVER
from holdfast.clusters.systems.postgres.system import PostgresSystem
from holdfast.clusters.systems.presets import LEASE, kept
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

OPTIONS = {"clock": ("database", "client")}
KEPT = ("partition", "pause", "kill")


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlLease(KeepsFiles):
    """A System on the server of another one, whose files, port and libraries it has."""

    name: str
    client: str
    server: PostgresSystem | MariaSystem

    @property
    def libraries(self) -> Sequence[str]:
        """As `System`."""
        return self.server.libraries

    @property
    def ports(self) -> Sequence[int]:
        """As `System`."""
        return self.server.ports

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Raises UsageError."""
        clock = choose(self.name, options, OPTIONS)["clock"]
        return replace(
            LEASE,
            recovery_ns=15 * SECOND,
            keeps=kept(KEPT, KEPT),
            sheet={
                "owner identity": "the name of the attempt in the row",
                "acquisition": "one statement that writes owner and time if the row's time is over;"
                " polled every 20 to 80 ms",
                "lease": f"a time in the row, by the wall clock of the {clock}",
                "renewal": "an update of the time where the row names the attempt",
                "token enforcement": "none",
                "timeout": "1 s per statement; a write without a response is unknown",
                "retry": "none; the client polls",
                "consequence": "a holder paused for longer than its lease is replaced without a"
                " notification",
                "clock assumptions": "the wall clock of the database does not step"
                if clock == "database"
                else "the wall clocks of all clients agree, and do not step",
                "evidence": "one server, every commit synced",
            },
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The server's."""
        return self.server.command(node, servers, place, {})

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        return self.server.precheck()

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the server opens a session."""
        return await self.server.ready(node, {})

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The one server that clients use."""
        return Leader(servers[0].name)


POSTGRES = SqlLease(
    name="postgres-lease",
    client="holdfast.clusters.systems.sql_lease.postgres:client",
    server=POSTGRES_SERVER,
)
MARIADB = SqlLease(
    name="mariadb-lease",
    client="holdfast.clusters.systems.sql_lease.mariadb:client",
    server=MARIADB_SERVER,
)
