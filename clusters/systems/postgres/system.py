"""Driver side of PostgreSQL locks: one server, holds that live as long as their session.

Promises: exclusion under every fault; a client that loses its session is notified and holds nothing
Does not promise: that a paused or partitioned holder notices before the next client is granted
Tested with: Debian's PostgreSQL 15 and psycopg 3.3.9
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.clusters.systems.operations import KeepsFiles
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.postgres import PORT, deploy
from holdfast.clusters.systems.presets import CONNECTION, REACHED, REVERTED, kept
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

OPTIONS: dict[str, tuple[str, ...]] = {
    "idle": ("lease", "none"),
    deploy.SYNCED: ("on", "off"),
    "tokens": ("none", "sequence"),
    "via": ("direct", "pgbouncer"),
}
"""When the server ends a silent session, whether a commit is synced before its response, whether a
grant takes a number from a sequence, and whether clients reach the server through a pooler with
transaction pooling."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PostgresSystem(KeepsFiles):
    """A System over one server; clients use the first node.

    acquisition   as text, per scope
    in_tx         scopes whose token is taken before its transaction has committed
    """

    name: str
    client: str
    scopes: Mapping[str, str]
    in_tx: Sequence[str]
    libraries: Sequence[str] = (
        "psycopg==3.3.9",
        "psycopg-binary==3.3.9",
        "typing_extensions==4.16.0",
    )
    ports: Sequence[int] = (PORT,)

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Exclusion under every fault. Raises UsageError."""
        chosen = self._chosen(options)
        scope = chosen.get("scope", next(iter(self.scopes)))
        tokens, synced = chosen["tokens"] == "sequence", chosen[deploy.SYNCED] == "on"
        keeps = kept(("any", *REVERTED)) | {"loss-notice": REACHED}
        if tokens:
            safe = synced and scope not in self.in_tx
            flushed = ("any",) if safe else ("partition", "pause", "suspend", "clock")
            keeps |= {"token-order": flushed, "no-stale-write": flushed}
        return replace(
            CONNECTION,
            tokens="ordered" if tokens else "none",
            tokens_unique=tokens,
            recovery_ns=10 * SECOND,
            keeps=keeps,
            sheet=self._sheet(scope, chosen),
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The same on every node; clients use the first."""
        chosen = self._chosen(options)
        pooled, synced = chosen["via"] == "pgbouncer", chosen[deploy.SYNCED]
        return deploy.command(node, place, pooled=pooled, synchronous_commit=synced)

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        return deploy.missing()

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the server opens a session."""
        return await deploy.ready(node)

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The one server that clients use."""
        return Leader(servers[0].name)

    def _chosen(self, options: Mapping[str, str]) -> dict[str, str]:
        scopes = {"scope": tuple(self.scopes)} if len(self.scopes) > 1 else {}
        return choose(self.name, options, {**OPTIONS, **scopes})

    def _sheet(self, scope: str, chosen: Mapping[str, str]) -> dict[str, str]:
        idle = chosen["idle"] == "lease"
        pooled = chosen["via"] == "pgbouncer"
        return {
            "owner identity": "the session"
            + (
                ", which a pooler assigns to the client that begins a transaction" if pooled else ""
            ),
            "acquisition": self.scopes[scope],
            "queue": "in the server, in order of arrival",
            "lease": "none; the server ends a session that is idle for a lease"
            " (idle_session_timeout, idle_in_transaction_session_timeout)"
            if idle
            else "none: an idle session holds forever",
            "renewal": "any response of the session; the client queries it every <= 300 ms",
            "token enforcement": "a number from a sequence, taken after the grant"
            if chosen["tokens"] == "sequence"
            else "none: these locks have no token",
            "timeout": "the client closes a session without a response for 1 s; the server"
            " closes a dead connection after about 3 s (tcp_keepalives, tcp_user_timeout,"
            " client_connection_check_interval)",
            "retry": "none; the next attempt opens a session",
            "consequence": "the server grants the lock to the next client before a paused or"
            " partitioned holder can know; then only the resource can reject its writes",
            "clock assumptions": "none for exclusion",
            "evidence": f"fsync on, synchronous_commit {chosen[deploy.SYNCED]}; locks live in"
            " memory and end with the server",
        }
