"""Driver side of locks on a Galera cluster: three MariaDB servers, any of which accepts writes.

Promises: of the row lease: exclusion while no server's wall clock steps and they agree; grants
    survive the end of any server, because the majority has them before their response. Of GET_LOCK:
    that a name becomes free with its session
Does not promise: GET_LOCK: exclusion between two servers. MariaDB's documentation of Galera lists
    explicit locking, GET_LOCK included, as not supported: a name is locked on one server only. The
    lease: fencing tokens, loss notification
Known issue: with `--set retry=1`, the default of MariaDB, a statement with RETURNING that the
    cluster rejected and the server repeated returns the row of the rejected try as well, before the
    actual one: two clients are granted the lock
Tested with: Debian's MariaDB 10.11 with galera-4 26.4, three servers, PyMySQL 1.2.4
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.clusters.systems.galera import COPY_PORT, GROUP_PORT, TRANSFER_PORT
from holdfast.clusters.systems.galera.node import PROVIDER, TIMES
from holdfast.clusters.systems.galera.status import states
from holdfast.clusters.systems.mariadb import PORT
from holdfast.clusters.systems.mariadb.server import binary
from holdfast.clusters.systems.operations import KeepsFiles
from holdfast.clusters.systems.options import choose, refuse_loopback
from holdfast.clusters.systems.presets import CONNECTION, LEASE, REACHED, kept
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import CRASHES, CUTS, STOPS
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

MODULE = "holdfast.clusters.systems.galera.node"
LEASE_OPTIONS = {
    "sync_wait": ("7", "0"),
    "retry": ("0", "1"),
    "clock": ("database", "client"),
}
"""Whether statements first wait for all earlier writes of the cluster (7: reads, updates, inserts);
how often a server repeats a statement that the cluster rejected (the default of MariaDB is 1);
whose wall clock counts."""
LOCK_OPTIONS = {"servers": ("any", "first"), "idle": ("lease", "none")}
"""Which servers a session may be opened with; when a server ends a silent session."""
SAFE = (CUTS, STOPS, CRASHES)
GROUP = (
    f"a server is suspected after {TIMES['evs.suspect_timeout']} of silence and excluded; without a"
    " majority it refuses statements (wsrep_ready OFF)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class GaleraSystem(KeepsFiles):
    """A System over three servers; `SYSTEM` has a lease in a row, `GET_LOCK` user locks."""

    name: str
    client: str
    libraries: Sequence[str] = ("pymysql==1.2.4",)
    ports: Sequence[int] = (PORT, GROUP_PORT, TRANSFER_PORT, COPY_PORT)
    backends: Sequence[str] = ("local",)
    confined_because: str = "runs its servers as the user nobody, who owns no files in containers"
    ready_within_ns: int = 60 * SECOND
    """It gets a copy of all files from another server, which serves one after the other."""
    no_members = "Holdfast does not add a server to the cluster's addresses"
    no_failover = "every server accepts writes: none of them leads"

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Raises UsageError."""
        raise NotImplementedError

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """One server of the cluster; the first one of the list starts it."""
        self.promises(options)
        refuse_loopback(self.name, node, servers)
        data = place.run_dir / "data" / node.name
        data.mkdir(parents=True, exist_ok=True)
        config = {
            "data": str(data),
            "name": node.name,
            "address": node.address,
            "peers": ",".join(server.address for server in servers),
            "first": "yes" if node.name == servers[0].name else "no",
        }
        return Command(
            argv=(node.python, "-S", "-P", "-m", MODULE, "--config", json.dumps(config)),
            log=place.run_dir / "logs" / node.name / "mariadb.log",
            prelude=MODULE,
            nobody=True,
        )

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        if binary("mariadbd") and binary("rsync") and Path(PROVIDER).exists():
            return None
        return "Galera is not installed; install mariadb-server"

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the server is in a component with a majority, and has all of its writes."""
        state = await states(node.address)
        synced = state.get("wsrep_local_state_comment") == "Synced"
        return synced and state.get("wsrep_ready") == "ON"

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """None: no server leads."""
        return None

    async def position(self, server: Node, options: Mapping[str, str]) -> int | None:
        """The number of the last write that the server has committed."""
        number = (await states(server.address)).get("wsrep_last_committed", "")
        return int(number) if number.isdigit() else None


class GaleraLease(GaleraSystem):
    """A lease in a row, written at any server."""

    __slots__ = ()

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Raises UsageError."""
        chosen = choose(self.name, options, LEASE_OPTIONS)
        clock = chosen["clock"]
        owned = SAFE if chosen["sync_wait"] == "7" else ()
        return replace(
            LEASE,
            recovery_ns=15 * SECOND,
            keeps=kept(SAFE, SAFE) | {"ownership": owned, "durable-grants": SAFE},
            sheet={
                "owner identity": "the name of the attempt in the row",
                "acquisition": "one statement at any server that writes owner and time if the row's"
                " time is over; of two at the same time the cluster rejects the later one in"
                " certification; polled every 20 to 80 ms",
                "lease": f"a time in the row, by the wall clock of the {clock}",
                "renewal": "an update of the time where the row names the attempt",
                "token enforcement": "none",
                "timeout": "1 s per statement; a write without a response, and one that was"
                " rejected in certification, is unknown",
                "retry": "none; the client polls, and opens its next session with another server",
                "consequence": "a holder paused for longer than its lease is replaced without a"
                " notification",
                "clock assumptions": "the wall clocks of the servers agree, and do not step"
                if clock == "database"
                else "the wall clocks of all clients agree, and do not step",
                "evidence": f"{GROUP}; wsrep_sync_wait {chosen['sync_wait']},"
                f" wsrep_retry_autocommit {chosen['retry']}",
            },
        )


class GaleraGetLock(GaleraSystem):
    """GET_LOCK in a session with one of the servers."""

    __slots__ = ()

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Raises UsageError."""
        chosen = choose(self.name, options, LOCK_OPTIONS)
        first = chosen["servers"] == "first"
        exclusive: tuple[str, ...] = (CUTS, STOPS) if first else ()
        keeps = kept(exclusive, SAFE) | {"loss-notice": REACHED}
        if not first:
            del keeps["mutual-exclusion"], keeps["ownership"]
        return replace(
            CONNECTION,
            purpose="correctness" if first else "efficiency",
            recovery_ns=15 * SECOND,
            keeps=keeps,
            sheet={
                "owner identity": "the session",
                "acquisition": "GET_LOCK(name, wait) in a session with "
                + ("the first server" if first else "any server; each server has its own names"),
                "queue": "in each server",
                "lease": "none; a server ends a session that is idle for a lease, in whole seconds"
                if chosen["idle"] == "lease"
                else "none: an idle session holds forever",
                "renewal": "any response of the session; the client queries it every <= 300 ms",
                "token enforcement": "none: these locks have no token",
                "timeout": "the client closes a session without a response for 1 s",
                "retry": "none; the next attempt opens a session",
                "consequence": "user locks are not replicated: clients of two servers own a name"
                " at once",
                "clock assumptions": "none",
                "evidence": f"{GROUP}; MariaDB's documentation of Galera's limitations: explicit"
                " locking is not supported, GET_LOCK and RELEASE_LOCK included",
            },
        )


SYSTEM = GaleraLease(name="galera-lease", client="holdfast.clusters.systems.galera.lease:client")
GET_LOCK = GaleraGetLock(
    name="galera-get-lock", client="holdfast.clusters.systems.galera.get_lock:client"
)
