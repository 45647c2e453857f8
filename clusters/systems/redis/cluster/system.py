"""Driver side of Redis Cluster: three primaries with a replica each, which fail over by election.

Promises: that the lock can be acquired again after a failover
Does not promise: exclusion under any fault: the promoted replica may not have the last grants, also
    with `--set wait=1`
Tested with: Debian's redis-server 7.0, six nodes, and redis-py 8.1.0
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from holdfast.clusters.systems.operations import Replicated
from holdfast.clusters.systems.options import choose, refuse_loopback
from holdfast.clusters.systems.presets import LEASE, kept
from holdfast.clusters.systems.redis import PORT
from holdfast.clusters.systems.redis.cluster import BUS_PORT, DOWN_MS, NODES, WAIT
from holdfast.clusters.systems.redis.cluster.layout import nodes_file, serves
from holdfast.clusters.systems.redis.server import missing, redis_server, said
from holdfast.clusters.systems.redis.system import LIBRARIES
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.fault_traits import FORCE
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

OPTIONS = {WAIT: ("0", "1"), "persistence": ("always", "none")}
FILE = "nodes.conf"
FIRST_LOCK = "lock-1"
"""A run's first lock: the primary of its slot is the leader that a fault can target."""


class RedisCluster(Replicated):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.redis.cluster.client:client"
    libraries: Sequence[str] = LIBRARIES
    ports: Sequence[int] = (PORT, BUS_PORT)

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Few promises under faults, whatever is acknowledged. Raises UsageError."""
        chosen = choose("redis-cluster", options, OPTIONS)
        waits = chosen[WAIT] != "0"
        return replace(
            LEASE,
            purpose="efficiency",
            slip_ns=5 * MILLISECOND,
            recovery_ns=15 * SECOND,
            keeps=kept(()),
            sheet={
                "owner identity": "a value unique to the attempt",
                "acquisition": "SET NX PX on the primary of the key's slot, polled every 2 to 12 ms"
                + ("; then WAIT, and a release without enough acknowledgements" if waits else ""),
                "lease": "the key's time to live, on the primary's wall clock",
                "renewal": "compare-and-PEXPIRE in a script" + (", then WAIT" if waits else ""),
                "token enforcement": "none: a plain Redis lock has no token",
                "timeout": "1 s per command; a command without a response is unknown",
                "retry": "none in the library (disabled), except of a redirect; the adapter polls",
                "consequence": "a promoted replica has no replica, so nothing is granted until the"
                " failed node is back"
                if waits
                else "replication is asynchronous: a promoted replica may not have the last grants,"
                " and a partitioned primary grants until it notices (split brain)",
                "clock assumptions": "no server's wall clock steps",
                "evidence": f"persistence: {chosen['persistence']}; replicas that acknowledge:"
                f" {chosen[WAIT]} of 1; a node is considered down after {DOWN_MS} ms",
            },
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """A primary or replica, by the node's position; later by its own file."""
        refuse_loopback("redis-cluster", node, servers)
        if len(servers) != NODES:
            raise EnvironmentFailed(f"redis-cluster needs exactly {NODES} nodes (--nodes {NODES})")
        chosen = choose("redis-cluster", options, OPTIONS)
        server = redis_server(node, place, chosen["persistence"])
        file = place.run_dir / "data" / node.name / FILE
        if not file.exists():
            file.write_text(nodes_file(node, servers, place.label))
        more = (
            "--cluster-enabled", "yes",
            "--cluster-config-file", FILE,
            "--cluster-node-timeout", str(DOWN_MS),
            "--repl-diskless-sync-delay", "0",
        )  # fmt: skip
        return replace(server, argv=(*server.argv, *more))

    async def fail_over(
        self, leader: Node, servers: Sequence[Node], options: Mapping[str, str], how: str
    ) -> None:
        """As `FailsOver`: a replica takes the place of its primary."""
        replica = await _replica_of(leader, servers)
        words = ("CLUSTER", "FAILOVER", *(("FORCE",) if how == FORCE else ()))
        if await said(replica.address, PORT, *words) != ["OK"]:
            raise EnvironmentFailed(f"{replica.name}: {' '.join(words)} was refused")

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        return missing()

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the node finds all slots served and, if it is a replica, has its copy."""
        cluster, copies = await asyncio.gather(
            said(node.address, PORT, "CLUSTER", "INFO"),
            said(node.address, PORT, "INFO", "replication"),
        )
        if not cluster or not copies or "cluster_state:ok" not in cluster[0]:
            return False
        roles = ("connected_slaves:1", "master_link_status:up")
        return any(role in copies[0] for role in roles)

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The primary of the first lock's slot in the highest configuration epoch."""
        asked = await asyncio.gather(*(_claims(server) for server in servers))
        leading = [one for one in asked if one is not None]
        return max(leading, key=attrgetter("term"), default=None)


async def _replica_of(primary: Node, servers: Sequence[Node]) -> Node:
    """A server that reports to be a replica of another. Errors: EnvironmentFailed."""
    for server in servers:
        role = await said(server.address, PORT, "ROLE")
        if role is not None and role[:2] == ["slave", primary.address]:
            return server
    raise EnvironmentFailed(f"{primary.name} has no replica")


async def _claims(server: Node) -> Leader | None:
    """The node as primary of the first lock's slot, by its own words."""
    slot = await said(server.address, PORT, "CLUSTER", "KEYSLOT", FIRST_LOCK)
    nodes = await said(server.address, PORT, "CLUSTER", "NODES") if slot else None
    epoch = serves(nodes[0], int(slot[0])) if slot and nodes else None
    return None if epoch is None else Leader(server.name, epoch)


SYSTEM = RedisCluster()
