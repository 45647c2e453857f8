"""Driver side of MariaDB locks: one server, holds that live as long as their session.

Promises: exclusion under every fault; a client that loses its session is notified and holds nothing
Does not promise: that a paused or partitioned holder notices before the next client is granted
Tested with: Debian's MariaDB 10.11 and PyMySQL 1.2.4
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.clusters.systems.mariadb import PORT
from holdfast.clusters.systems.mariadb.server import binary
from holdfast.clusters.systems.operations import KeepsFiles
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.presets import CONNECTION, REACHED, kept
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import CUTS, SKEWS, STOPS
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

FLUSHED, SYNCED = "flush_log", "innodb-flush-log-at-trx-commit"
"""Our option, and the server's setting."""
OPTIONS: dict[str, tuple[str, ...]] = {
    "idle": ("lease", "none"),
    FLUSHED: ("1", "2", "0"),
    "tokens": ("none", "sequence"),
}
"""When the server ends a silent session; whether a commit is synced (1), written (2) or neither (0)
before its response; whether a grant takes a number from a sequence."""
MODULE = "holdfast.clusters.systems.mariadb.server"
READY_WITHIN_S = 0.5
PROTOCOL = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class MariaSystem(KeepsFiles):
    """A System over one server; `SYSTEM` has row locks, `GET_LOCK` user locks.

    `acquisition` is text.
    """

    name: str
    client: str
    acquisition: str
    libraries: Sequence[str] = ("pymysql==1.2.4",)
    ports: Sequence[int] = (PORT,)

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Exclusion under every fault. Raises UsageError."""
        chosen = choose(self.name, options, OPTIONS)
        tokens = chosen["tokens"] == "sequence"
        keeps = kept(("any",)) | {"loss-notice": REACHED}
        if tokens:
            keeps |= dict.fromkeys(("token-order", "no-stale-write"), (CUTS, STOPS, SKEWS))
        idle = chosen["idle"] == "lease"
        return replace(
            CONNECTION,
            tokens="ordered" if tokens else "none",
            tokens_unique=tokens,
            recovery_ns=15 * SECOND,
            keeps=keeps,
            sheet={
                "owner identity": "the session",
                "acquisition": self.acquisition,
                "queue": "in the server",
                "lease": "none; the server ends a session that is idle for a lease, in whole"
                " seconds (wait_timeout, idle_transaction_timeout)"
                if idle
                else "none: an idle session holds forever",
                "renewal": "any response of the session; the client queries it every <= 300 ms",
                "token enforcement": "a number from a sequence, taken after the grant"
                if tokens
                else "none: these locks have no token",
                "timeout": "the client closes a session without a response for 1 s; waits are"
                " measured in whole seconds by the server",
                "retry": "none; the next attempt opens a session",
                "consequence": "the server grants the lock to the next client before a paused or"
                " partitioned holder can know; then only the resource can reject its writes",
                "clock assumptions": "none for exclusion",
                "evidence": f"innodb_flush_log_at_trx_commit {chosen[FLUSHED]}; locks live in"
                " memory and end with the server",
            },
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The same on every node; clients use the first."""
        data = place.run_dir / "data" / node.name
        data.mkdir(parents=True, exist_ok=True)
        synced = {SYNCED: choose(self.name, options, OPTIONS)[FLUSHED]}
        config = json.dumps({"data": str(data), "address": node.address, **synced})
        return Command(
            argv=(node.python, "-S", "-P", "-m", MODULE, "--config", config),
            log=place.run_dir / "logs" / node.name / "mariadb.log",
            prelude=MODULE,
        )

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        if binary("mariadbd") is None or binary("mariadb-install-db") is None:
            return "mariadbd is not installed; install mariadb-server, or use --backend docker"
        return None

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the server sends its greeting, after 4 bytes of length and number."""
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                reader, writer = await asyncio.open_connection(node.address, PORT)
                greeting = await reader.readexactly(5)
                writer.close()
        except (OSError, EOFError, TimeoutError):
            return False
        return greeting[4] == PROTOCOL

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The one server that clients use."""
        return Leader(servers[0].name)


SYSTEM = MariaSystem(
    name="mariadb-row",
    client="holdfast.clusters.systems.mariadb.client:client",
    acquisition="SELECT ... FOR UPDATE with WAIT or NOWAIT, in an open transaction",
)
GET_LOCK = MariaSystem(
    name="mariadb-get-lock",
    client="holdfast.clusters.systems.mariadb.get_lock:client",
    acquisition="GET_LOCK(name, wait) in a session; RELEASE_LOCK frees it",
)
