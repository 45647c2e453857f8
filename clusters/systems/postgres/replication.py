"""A PostgreSQL primary with a hot standby: roles, promotion, a former primary that rejoins.

The standby is a copy by pg_basebackup and follows by streaming replication. Nothing fails over by
itself: an operator promotes the standby (nemesis `manual-failover`). A server that starts is what
its files say, so a former primary that was killed starts as a primary again.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from holdfast.clusters.systems.operations import KeepsFiles
from holdfast.clusters.systems.options import refuse_loopback
from holdfast.clusters.systems.postgres import PORT, USER, deploy
from holdfast.clusters.systems.postgres.server import HERE, STANDBY
from holdfast.clusters.systems.postgres.wire import first_row
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.fault_traits import FORCE, HANDOVER
from holdfast.harness.core.ports import Leader, Node, Place

REPLICAS, SYNCHRONOUS, LEVEL = "replicas", "synchronous", "wal_level"
OPTIONS: dict[str, tuple[str, ...]] = {
    REPLICAS: ("0", "1"),
    SYNCHRONOUS: ("no", "yes"),
    LEVEL: ("replica", "logical"),
}
"""Number of hot standbys; whether a commit waits until the standby has written it to disk; whether
the log has what logical decoding needs."""
ROLE_S, PROMOTED_S = 0.5, 10
RETRY = "200ms"
ROLE = (
    "select pg_is_in_recovery(), case when pg_is_in_recovery() then"
    " (select coalesce(max(received_tli), 0) from pg_stat_wal_receiver where status = 'streaming')"
    " else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int end"
)
"""Whether it is a standby, and its timeline; 0 for a standby that does not stream."""
NO_STANDBY = "it has one server: add a standby with --set replicas=1"
NO_MEMBER = "a standby is no member that others remove; manual-failover:via=force rebuilds a server"


class Replicating(KeepsFiles):
    """Mixin of a System of PostgreSQL servers with the options of OPTIONS."""

    stops_with = signal.SIGINT
    """A fast shutdown: a primary waits until its standby has all of its log."""
    no_members = NO_MEMBER

    def servers(self, options: Mapping[str, str]) -> int:
        """As `Sized`: the primary and its standbys."""
        return 1 + int(replicated(options))

    def operations(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """As `Operated`: files and restarts; failovers with a standby."""
        alone = "" if replicated(options) else NO_STANDBY
        return {**super().operations(options), HANDOVER: alone, FORCE: alone}

    def config_problems(self, options: Mapping[str, str]) -> Sequence[str]:
        """As `Configurable`: a postgresql.conf."""
        return deploy.CONFIG_FILE.problems(options)

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the server opens a session; a standby must also receive its primary's log."""
        if not replicated(options):
            return await deploy.ready(node)
        role = await role_of(node)
        return role is not None and role.timeline != 0

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The primary of the highest timeline; None if no primary responds."""
        if not replicated(options):
            return Leader(servers[0].name)
        roles = await asyncio.gather(*(role_of(server) for server in servers))
        leading = [role for role in roles if role is not None and not role.standby]
        last = max(leading, key=attrgetter("timeline"), default=None)
        return None if last is None else Leader(last.name, last.timeline)

    async def fail_over(
        self, leader: Node, servers: Sequence[Node], options: Mapping[str, str], how: str
    ) -> None:
        """As `FailsOver`: promotes the standby. Nothing is done to the primary."""
        standby = _other(leader, servers)
        role = await role_of(standby)
        if role is None or not role.standby:
            raise EnvironmentFailed(f"{standby.name} is no standby that could be promoted")
        words = f"select pg_promote(true, {PROMOTED_S})"
        # Without a response it may have been promoted: the driver asks who leads.
        await first_row(standby.address, words, PROMOTED_S + 1)

    async def replaceable(
        self, leader: Node, servers: Sequence[Node], options: Mapping[str, str], how: str
    ) -> bool:
        """As `Rejoins`: whether the other server is a standby. For a handover it also streams,
        since the primary waits at its shutdown for none that does not."""
        role = await role_of(_other(leader, servers))
        return role is not None and role.standby and (how == FORCE or role.timeline != 0)

    def rejoin(self, node: Node, place: Place, how: str) -> None:
        """As `Rejoins`. After a handover its files are those of a standby already; otherwise it may
        have written what its successor does not have, and it is copied again."""
        data = place.run_dir / "data" / node.name
        if how == HANDOVER:
            (data / HERE / STANDBY).touch()
            return
        for entry in data.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        _copied(place, node).parent.mkdir(exist_ok=True)
        _copied(place, node).touch()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicationState:
    """What a server reports of itself; `timeline` 0 for a standby that does not stream."""

    name: str
    standby: bool
    timeline: int


def _other(leader: Node, servers: Sequence[Node]) -> Node:
    (other,) = (server for server in servers if server.name != leader.name)
    return other


async def role_of(server: Node) -> ReplicationState | None:
    """The role of a server; None if it does not respond."""
    row = await first_row(server.address, ROLE, ROLE_S)
    if not row:
        return None
    return ReplicationState(name=server.name, standby=row[0] == "t", timeline=int(row[1]))


def replicated(options: Mapping[str, str]) -> bool:
    """Whether there is a standby."""
    return options.get(REPLICAS, "0") != "0"


def problems(chosen: Mapping[str, str]) -> list[str]:
    """What options of OPTIONS do not fit together, one line each."""
    synchronous, conflicts = chosen[SYNCHRONOUS] == "yes", []
    if synchronous and not replicated(chosen):
        conflicts.append("synchronous=yes needs a standby: add --set replicas=1")
    if synchronous and chosen[deploy.SYNCED] != "on":
        conflicts.append("synchronous=yes waits for nothing with synchronous_commit=off")
    if replicated(chosen) and chosen.get("via", "direct") != "direct":
        conflicts.append("replicas=1: clients find the primary themselves, so it needs via=direct")
    return conflicts


def sheet(chosen: Mapping[str, str]) -> str:
    """The end of the line about evidence in a design sheet; "" without a standby."""
    if not replicated(chosen):
        return ""
    how = "synchronous" if chosen[SYNCHRONOUS] == "yes" else "asynchronous"
    return f"; one hot standby, {how} streaming replication; an operator promotes it"


def settings(
    system: str,
    node: Node,
    servers: Sequence[Node],
    place: Place,
    chosen: Mapping[str, str],
) -> dict[str, str]:
    """The settings of a server that are not the usual ones; of two servers in either role.

    Errors: EnvironmentFailed.
    """
    level = {LEVEL: chosen[LEVEL]} if chosen[LEVEL] != OPTIONS[LEVEL][0] else {}
    if not replicated(chosen):
        return level
    refuse_loopback(system, node, servers)
    (other,) = (server for server in servers if server.name != node.name)
    words = {
        "host": other.address,
        "port": str(PORT),
        "user": USER,
        "application_name": node.name,
        "connect_timeout": "2",
    }
    conninfo = " ".join(f"{name}={value}" for name, value in words.items())
    own = {"primary_conninfo": conninfo, "wal_retrieve_retry_interval": RETRY, **level}
    if chosen[SYNCHRONOUS] == "yes":
        own["synchronous_standby_names"] = f"FIRST 1 ({other.name})"
    copies = node.name != servers[0].name or _copied(place, node).exists()
    return own | ({"copy_of": other.address} if copies else {})


def _copied(place: Place, node: Node) -> Path:
    """A file that exists if the first primary lost its files and became a copy of the other."""
    return place.run_dir / "copied" / node.name
