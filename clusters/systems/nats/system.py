"""Driver side of a lock in a NATS key-value bucket: server command, leader, promises.

Promises: exclusion while clocks are correct, ordered tokens, ownership, progress; with a resource
    that checks tokens, no stale write.
Does not promise: exclusion if a server's wall clock steps, because keys expire by it; loss
    notification.
Tested with: Debian's nats-server 2.9.10 and nats-py 2.16.0. One server kept its promises; three
    servers of this version do not (nats-server#4320, `holdfast list findings`).
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.clusters.systems.nats import BUCKET, PEER_PORT, PORT, STATUS_PORT
from holdfast.clusters.systems.operations import KeepsFiles
from holdfast.clusters.systems.options import choose, refuse_loopback
from holdfast.clusters.systems.presets import LEASE_WITH_TOKENS
from holdfast.clusters.systems.response import response
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import CRASHES, CUTS, STOPS
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

BINARY = "nats-server"
STATUS_S = 0.5
KEPT = (CUTS, STOPS, CRASHES)
SAFE = ("mutual-exclusion", "no-stale-write", "no-lost-update", "token-order", "ownership")
LIVE = ("deadlock-freedom", "orphan-freedom")
SHEET = {
    "owner identity": "a value unique to the attempt, and the revision of its newest write",
    "acquisition": "a conditional write: the key does not exist, or was deleted; polled every"
    " 10 to 50 ms",
    "lease": "the age limit of the bucket, measured from a key's latest write on the wall"
    " clock of each server; all locks have the same lease",
    "renewal": "a conditional write: our revision is the latest",
    "token enforcement": "the revision of the creation: its position in the bucket's log",
    "timeout": "1 s per request; a write without a response is unknown",
    "retry": "none; a renewal after an unknown one looks up our latest revision",
    "consequence": "a holder paused for longer than its lease is replaced without a notification",
    "clock assumptions": "the wall clocks of servers do not step",
    "evidence": "writes go to a file without fsync per write: survives a process crash, not a"
    " machine crash",
}


class NatsKv(KeepsFiles):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.nats.client:client"
    libraries: Sequence[str] = ("nats-py==2.16.0",)
    ports: Sequence[int] = (PORT, PEER_PORT, STATUS_PORT)
    no_members = "Holdfast does not change the routes of its cluster"
    no_failover = "Holdfast does not ask the leader of its stream to step down"

    def promises(self, options: Mapping[str, str]) -> Promises:
        """All promises, except under clock steps. Raises UsageError: it has no options."""
        choose("nats-kv", options, {})
        return replace(
            LEASE_WITH_TOKENS,
            recovery_ns=10 * SECOND,
            keeps={**dict.fromkeys((*SAFE, *LIVE), KEPT), "no-hung-request": ("any",)},
            sheet=SHEET,
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """One server; its data is data/<node> in the run's folder."""
        refuse_loopback("nats-kv", node, servers)
        data = place.run_dir / "data" / node.name
        data.mkdir(parents=True, exist_ok=True)
        config = data / "nats.conf"
        # The syntax of the file accepts JSON.
        config.write_text(json.dumps(_config(node, servers, str(data / "jetstream"))) + "\n")
        argv = (BINARY, "-c", str(config))
        return Command(argv=argv, log=place.run_dir / "logs" / node.name / "nats.log")

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        if shutil.which(BINARY) is None:
            return f"{BINARY} is not installed; install it, or use --backend docker"
        return None

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the server reports a working store, and in a cluster a known leader."""
        health = await asked(node.address, "/healthz")
        return health is not None and health.get("status") == "ok"

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The leader of the bucket, by the majority of the responses; None if unknown."""
        if len(servers) == 1:
            return Leader(servers[0].name)
        reports = await asyncio.gather(
            *(asked(server.address, "/jsz?accounts=true&streams=true") for server in servers)
        )
        names = [leader for report in reports if report is not None and (leader := _leader(report))]
        named = max(sorted(set(names)), key=names.count, default=None)
        return None if named is None else Leader(named)


async def asked(address: str, path: str) -> dict[str, Json] | None:
    """A server's own status; None if it does not respond in time."""
    question = f"GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n".encode()
    answer = await response(address, STATUS_PORT, question, STATUS_S)
    try:
        report = json.loads(answer.partition(b"\r\n\r\n")[2])
    except ValueError:
        return None
    return report if isinstance(report, dict) else None


def _leader(said: Mapping[str, Any]) -> str:
    """The leader of the bucket's log in one server's view, "" if unknown."""
    for account in said.get("account_details") or ():
        for log in account.get("stream_detail") or ():
            if log.get("name") == f"KV_{BUCKET}":
                return str((log.get("cluster") or {}).get("leader", ""))
    return ""


def _config(node: Node, servers: Sequence[Node], store: str) -> dict[str, Json]:
    table: dict[str, Json] = {
        "server_name": node.name,
        "listen": f"{node.address}:{PORT}",
        "http": f"{node.address}:{STATUS_PORT}",
        "jetstream": {"store_dir": store, "max_memory_store": 1 << 26, "max_file_store": 1 << 28},
    }
    if len(servers) > 1:
        table["cluster"] = {
            "name": "holdfast",
            "listen": f"{node.address}:{PEER_PORT}",
            "routes": [f"nats-route://{other.address}:{PEER_PORT}" for other in servers],
        }
    return table


SYSTEM = NatsKv()
