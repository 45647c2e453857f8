"""Driver side of PostgreSQL locks: one server, holds that live as long as their session.

Promises: exclusion under every fault; a client that loses its session is notified and holds nothing
Does not promise: that a paused or partitioned holder notices before the next client is granted;
    with `replicas=1` exclusion across a failover, because these locks are not replicated: a
    promoted standby grants what a primary that still runs has granted
Tested with: Debian's PostgreSQL 15 and psycopg 3.3.9
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.postgres import PORT, deploy, replication
from holdfast.clusters.systems.postgres.replication import Replicating
from holdfast.clusters.systems.presets import CONNECTION, REACHED, kept
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import CUTS, REVERTS, SKEWS, STOPS
from holdfast.harness.core.ports import Command, Node, Place
from holdfast.harness.core.verdict import Promises

OPTIONS: dict[str, tuple[str, ...]] = {
    "idle": ("lease", "none"),
    deploy.SYNCED: ("on", "off"),
    "tokens": ("none", "sequence"),
    "via": ("direct", "pgbouncer"),
    **replication.OPTIONS,
}
"""When the server ends a silent session, whether a commit is synced before its response, whether a
grant takes a number from a sequence, whether clients reach the server through a pooler with
transaction pooling, and those of replication."""
WITHOUT_FAILOVER = (*REACHED, SKEWS)
"""Faults under which a lock that is not replicated has one owner, if there is a standby."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PostgresSystem(Replicating):
    """A System over one server, or a primary and its standby; clients use the primary.

    acquisition   as text, per scope
    in_tx         scopes whose token is taken before its transaction has committed
    able          what its client can do beyond a plain lock
    """

    name: str
    client: str
    scopes: Mapping[str, str]
    in_tx: Sequence[str]
    able: Sequence[str] = ()
    libraries: Sequence[str] = (
        "psycopg==3.3.9",
        "psycopg-binary==3.3.9",
        "typing_extensions==4.16.0",
    )
    ports: Sequence[int] = (PORT,)

    def abilities(self, options: Mapping[str, str]) -> Sequence[str]:
        """As `Able`."""
        return self.able

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Exclusion under every fault, with a standby except failovers. Raises UsageError."""
        chosen = self._chosen(options)
        alone = not replication.replicated(chosen)
        every = ("any",) if alone else WITHOUT_FAILOVER
        scope = chosen.get("scope", next(iter(self.scopes)))
        tokens, synced = chosen["tokens"] == "sequence", chosen[deploy.SYNCED] == "on"
        keeps = kept((*every, *((REVERTS,) if alone else ()))) | {"loss-notice": REACHED}
        if tokens:
            safe = synced and scope not in self.in_tx
            flushed = every if safe else (CUTS, STOPS, SKEWS)
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
        """A primary; the second of two servers is its standby until it is promoted."""
        chosen = self._chosen(options)
        return deploy.command(
            node,
            place,
            pooled=chosen["via"] == "pgbouncer",
            synchronous_commit=chosen[deploy.SYNCED],
            replication=replication.settings(self.name, node, servers, place, chosen),
            own=deploy.CONFIG_FILE.values(options),
        )

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        return deploy.missing()

    def _chosen(self, options: Mapping[str, str]) -> dict[str, str]:
        scopes = {"scope": tuple(self.scopes)} if len(self.scopes) > 1 else {}
        chosen = choose(self.name, options, {**OPTIONS, **scopes})
        if wrong := replication.problems(chosen):
            raise UsageError(*(f"{self.name}: {why}" for why in wrong))
        return chosen

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
            " memory and end with the server" + replication.sheet(chosen),
        }
