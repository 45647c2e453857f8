"""Driver side of Redis with Sentinel failover: what an asynchronous replica can promise.

Promises: that the lock can be acquired again after a failover
Does not promise: exclusion under any fault: the new primary may not have the last grants, and the
old primary keeps granting until it is demoted (split brain)
Tested with: Debian's redis-server 7.0 as primary, replica and three sentinels, and redis-py 8.1.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from holdfast.clusters.systems.operations import Replicated
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.presets import LEASE, kept
from holdfast.clusters.systems.redis import PORT as DATA_PORT
from holdfast.clusters.systems.redis.sentinel import DATA, GROUP, PORT
from holdfast.clusters.systems.redis.server import BINARY, missing, said
from holdfast.clusters.systems.redis.system import LIBRARIES
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.fault_traits import FORCE, HANDOVER
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

OPTIONS = {"persistence": ("always", "none")}
PERSISTENCE = {
    "always": ("appendonly yes", "appendfsync always"),
    "none": ('save ""', "appendonly no"),
}
DOWN_MS, FAILOVER_MS = 1000, 3000
LEAST = len(DATA) + 1
ONLY_FORCE = "its sentinels promote the replica without the primary: use via=force"


class RedisSentinel(Replicated):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.redis.sentinel.client:client"
    libraries: Sequence[str] = LIBRARIES
    ports: Sequence[int] = (DATA_PORT, PORT)
    promoted_by = MappingProxyType({HANDOVER: ONLY_FORCE, FORCE: ""})

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Few promises under faults, whatever is synced. Raises UsageError."""
        persistence = choose("redis-sentinel", options, OPTIONS)["persistence"]
        return replace(
            LEASE,
            purpose="efficiency",
            slip_ns=5 * MILLISECOND,
            recovery_ns=15 * SECOND,
            keeps=kept(()),
            sheet={
                "owner identity": "a value unique to the attempt",
                "acquisition": "SET NX PX on the primary, polled every 2 to 12 ms",
                "lease": "the key's time to live, on the primary's wall clock",
                "renewal": "compare-and-PEXPIRE in a script",
                "token enforcement": "none: a plain Redis lock has no token",
                "timeout": "1 s per command; a command without a response is unknown",
                "retry": "none in the library (disabled); the adapter polls",
                "consequence": "replication is asynchronous: a promoted replica may not have the"
                " last grants, and a partitioned primary grants until it is demoted (split brain)",
                "clock assumptions": "no server's wall clock steps",
                "evidence": f"persistence: {persistence}; a primary is considered down after"
                f" {DOWN_MS} ms; failover timeout {FAILOVER_MS} ms",
            },
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """Primary, replica or sentinel, by the node's name; later by its rewritten file."""
        if len(servers) < LEAST:
            raise EnvironmentFailed(f"redis-sentinel needs at least {LEAST} nodes (--nodes 5)")
        data = place.run_dir / "data" / node.name
        data.mkdir(parents=True, exist_ok=True)
        file = data / "redis.conf"
        if not file.exists():
            persistence = choose("redis-sentinel", options, OPTIONS)["persistence"]
            file.write_text("\n".join(settings(node, servers, data, persistence)) + "\n")
        role = () if node.name in DATA else ("--sentinel",)
        log = place.run_dir / "logs" / node.name / "redis.log"
        return Command(argv=(BINARY, str(file), *role), log=log)

    async def fail_over(
        self, leader: Node, servers: Sequence[Node], options: Mapping[str, str], how: str
    ) -> None:
        """As `FailsOver`: a sentinel promotes the replica, without asking the others."""
        sentinel = servers[len(DATA)]
        if await said(sentinel.address, PORT, "SENTINEL", "FAILOVER", GROUP) != ["OK"]:
            raise EnvironmentFailed(f"{sentinel.name}: SENTINEL FAILOVER was refused")

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        return missing()

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether a primary responds, a replica is synced, a sentinel knows enough others."""
        if node.name in DATA:
            info = await said(node.address, DATA_PORT, "INFO", "replication")
            roles = ("role:master", "master_link_status:up")
            return info is not None and any(role in info[0] for role in roles)
        return await said(node.address, PORT, "SENTINEL", "CKQUORUM", GROUP) is not None

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The primary by the first sentinel that responds."""
        names = {server.address: server.name for server in servers}
        for server in servers[len(DATA) :]:
            words = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", GROUP)
            named = await said(server.address, PORT, *words)
            if named:
                name = names.get(named[0])
                return None if name is None else Leader(name)
        return None


def settings(node: Node, servers: Sequence[Node], data: Path, persistence: str) -> Sequence[str]:
    """The lines of a node's initial configuration; sentinels rewrite it when roles change."""
    primary = servers[0].address
    shared = [f"bind {node.address}", f"dir {data}", "protected-mode no", "daemonize no"]
    if node.name in DATA:
        replica = [f"replicaof {primary} {DATA_PORT}"] if node.name != DATA[0] else []
        copies = [f"port {DATA_PORT}", "repl-diskless-sync-delay 0", *replica]
        return [*shared, *PERSISTENCE[persistence], *copies]
    quorum = (len(servers) - len(DATA)) // 2 + 1
    return [
        *shared,
        f"port {PORT}",
        f"sentinel monitor {GROUP} {primary} {DATA_PORT} {quorum}",
        *(f"sentinel known-replica {GROUP} {other.address} {DATA_PORT}" for other in servers[1:2]),
        f"sentinel down-after-milliseconds {GROUP} {DOWN_MS}",
        f"sentinel failover-timeout {GROUP} {FAILOVER_MS}",
    ]


SYSTEM = RedisSentinel()
