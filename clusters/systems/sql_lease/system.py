"""Driver side of leases that are rows: one database server, a time in a table.

Promises: exclusion while no wall clock steps: the database's, or with `clock=client` the clients';
    with commits that are synced (the default) also after a crash and a power loss of the server;
    PostgreSQL with a synchronous standby also across a failover, even if the former primary still
    runs: no commit is acknowledged there without the standby
Does not promise: exclusion under clock faults, fencing tokens, loss notification; with an
    asynchronous standby exclusion across a failover
Tested with: Debian's PostgreSQL 15 and MariaDB 10.11, psycopg 3.3.9 and PyMySQL 1.2.4
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.clusters.systems.config_files import CONFIG
from holdfast.clusters.systems.mariadb.system import FLUSHED, MariaSystem
from holdfast.clusters.systems.mariadb.system import SYSTEM as MARIADB_SERVER
from holdfast.clusters.systems.operations import KeepsFiles
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.postgres import record, replication
from holdfast.clusters.systems.postgres.deploy import SYNCED
from holdfast.clusters.systems.postgres.replication import Replicating
from holdfast.clusters.systems.postgres.row.system import SYSTEM as POSTGRES_SERVER
from holdfast.clusters.systems.postgres.system import PostgresSystem
from holdfast.clusters.systems.presets import LEASE, kept
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import CRASHES, CUTS, HANDS_OVER, LOSES_UNSYNCED, STOPS
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises
from holdfast.harness.recording.server_record import RecordTask

OPTIONS = {"clock": ("database", "client")}
KEPT = (CUTS, STOPS)


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlLease(KeepsFiles):
    """A System on the server of another one, whose files, port and libraries it has.

    commit   option of that server: what a commit waits for; the first value is a sync
    killed   its values with which the server loses no commit when its processes are killed
    further  options that the server has too, with their values
    """

    name: str
    client: str
    server: PostgresSystem | MariaSystem
    commit: tuple[str, Sequence[str]]
    killed: Sequence[str]
    further: Mapping[str, Sequence[str]] = field(default_factory=dict)

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
        chosen = self._chosen(options)
        clock, (name, values) = chosen["clock"], self.commit
        synced = chosen[name] == values[0]
        lost = (CRASHES,) * (chosen[name] in self.killed) + (LOSES_UNSYNCED,) * synced
        if chosen.get(replication.SYNCHRONOUS) == "yes":
            lost += (HANDS_OVER,)
        durable = {"durable-grants": (*KEPT, *lost)} if synced else {}
        return replace(
            LEASE,
            recovery_ns=15 * SECOND,
            keeps=kept((*KEPT, *lost), (*KEPT, CRASHES)) | durable,
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
                "clock assumptions": "the wall clock of the database does not step; that of a"
                " promoted standby agrees with it"
                if replication.replicated(chosen) and clock == "database"
                else "the wall clock of the database does not step"
                if clock == "database"
                else "the wall clocks of all clients agree, and do not step",
                "evidence": f"one server, {name} {chosen[name]}{replication.sheet(chosen)}",
            },
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The server's."""
        chosen = self._chosen(options)
        own = {name: chosen[name] for name in (self.commit[0], *self.further)}
        own |= {name: text for name, text in options.items() if name == CONFIG}
        return self.server.command(node, servers, place, own)

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        return self.server.precheck()

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the server opens a session."""
        return await self.server.ready(node, {})

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The one server that clients use."""
        return Leader(servers[0].name)

    def _chosen(self, options: Mapping[str, str]) -> dict[str, str]:
        known = {**OPTIONS, self.commit[0]: self.commit[1], **self.further}
        return choose(self.name, options, known)


class PostgresLease(Replicating, SqlLease):
    """The lease on PostgreSQL, whose server may have a standby."""

    def unrecorded(self, options: Mapping[str, str]) -> str | None:
        """As `KeepsRecord`: without a log that can be decoded, or whose places may come again."""
        chosen = self._chosen(options)
        if chosen[replication.LEVEL] != "logical":
            return "its log cannot be decoded: add --set wal_level=logical"
        if replication.replicated(chosen):
            return "a replication slot does not follow a failover: use replicas=0"
        if chosen[SYNCED] != "on":
            return "commits that are not synced may be lost: use synchronous_commit=on"
        return None

    async def follow(self, task: RecordTask) -> None:
        """As `KeepsRecord`: the server's log, by logical decoding."""
        await record.follow(task)

    def _chosen(self, options: Mapping[str, str]) -> dict[str, str]:
        chosen = super()._chosen(options)
        if wrong := replication.problems(chosen):
            raise UsageError(*(f"{self.name}: {why}" for why in wrong))
        return chosen


POSTGRES = PostgresLease(
    name="postgres-lease",
    client="holdfast.clusters.systems.sql_lease.postgres:client",
    server=POSTGRES_SERVER,
    commit=(SYNCED, ("on", "off")),
    killed=("on",),
    further=replication.OPTIONS,
)
MARIADB = SqlLease(
    name="mariadb-lease",
    client="holdfast.clusters.systems.sql_lease.mariadb:client",
    server=MARIADB_SERVER,
    commit=(FLUSHED, ("1", "2", "0")),
    killed=("1", "2"),
)
