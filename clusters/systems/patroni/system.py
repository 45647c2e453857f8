"""Driver side of PostgreSQL under Patroni: what a lease in a row keeps across automatic failovers.

Promises: exclusion without faults; that the lock can be acquired again after a failover
Does not promise: exclusion under any fault: replication is asynchronous, so a promoted standby may
    not have the last grants; a primary that was paused acknowledges grants until Patroni notices
    that its key has expired (split brain), because there is no watchdog
Tested with: Debian's Patroni 3.0.2, PostgreSQL 15 and etcd 3.4.23: two databases, one etcd
"""

from __future__ import annotations

import asyncio
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType

from holdfast.clusters.systems.etcd import PEER_PORT
from holdfast.clusters.systems.etcd import PORT as ETCD_PORT
from holdfast.clusters.systems.etcd.system import SYSTEM as ETCD
from holdfast.clusters.systems.operations import Replicated
from holdfast.clusters.systems.options import choose, refuse_loopback
from holdfast.clusters.systems.patroni import DATA, LOOP_S, REST_PORT, RETRY_S, TTL_S
from holdfast.clusters.systems.patroni.node import PATRONI
from holdfast.clusters.systems.postgres import DATABASE, PORT, USER, deploy
from holdfast.clusters.systems.postgres.replication import RETRY, role_of
from holdfast.clusters.systems.postgres.row.system import SYSTEM as POSTGRES
from holdfast.clusters.systems.postgres.server import HERE, SCHEMA, SETTINGS, binary
from holdfast.clusters.systems.presets import LEASE, kept
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.fault_traits import FORCE, HANDOVER
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

MODULE = "holdfast.clusters.systems.patroni.node"
ONLY_HANDOVER = "Patroni demotes a leader before it promotes another: use via=handover"
SWITCHED_S = 15
LEAST = len(DATA) + 1
OWNED = ("port", "synchronous_commit")
"""Settings of a server that Patroni's own configuration decides."""


class PostgresPatroni(Replicated):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.patroni.client:client"
    libraries: Sequence[str] = POSTGRES.libraries
    ports: Sequence[int] = (PORT, REST_PORT, ETCD_PORT, PEER_PORT)
    no_members = "Holdfast does not add a member to its etcd, nor a database to its configuration"
    promoted_by = MappingProxyType({HANDOVER: "", FORCE: ONLY_HANDOVER})

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Few promises under faults. Raises UsageError: it has no options."""
        choose("postgres-patroni", options, {})
        return replace(
            LEASE,
            purpose="efficiency",
            recovery_ns=15 * SECOND,
            keeps=kept(()),
            sheet={
                "owner identity": "the name of the attempt in the row",
                "acquisition": "one statement that writes owner and time if the row's time is over;"
                " polled every 20 to 80 ms; clients find the primary by libpq",
                "lease": "a time in the row, by the wall clock of the primary",
                "renewal": "an update of the time where the row names the attempt",
                "token enforcement": "none",
                "timeout": "1 s per statement; a write without a response is unknown",
                "retry": "none; the client polls",
                "consequence": "replication is asynchronous: a promoted standby may not have the"
                " last grants, and a primary that was paused grants until it is demoted",
                "clock assumptions": "the wall clocks of the databases agree, and do not step",
                "evidence": f"the leader's key lives for {TTL_S} s and is renewed every {LOOP_S} s;"
                " no watchdog; fsync on, synchronous_commit on",
            },
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """A database with Patroni, or a member of etcd, by the node's name."""
        if len(servers) < LEAST:
            raise EnvironmentFailed(f"postgres-patroni needs at least {LEAST} nodes")
        refuse_loopback("postgres-patroni", node, servers)
        etcd = [server for server in servers if server.name not in DATA]
        if node.name not in DATA:
            return ETCD.command(node, etcd, place, {})
        data = place.run_dir / "data" / node.name
        data.mkdir(parents=True, exist_ok=True)
        addresses = [server.address for server in etcd]
        file = data / "patroni.json"
        file.write_text(json.dumps(settings(node, addresses, str(data)), indent=1))
        config = json.dumps({"file": str(file), "etcd": " ".join(addresses)})
        return Command(
            argv=(node.python, "-S", "-P", "-m", MODULE, "--config", config),
            log=place.run_dir / "logs" / node.name / "patroni.log",
            nobody=True,
        )

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        if not os.access(PATRONI, os.R_OK):
            return "patroni is not installed; install patroni and python3-etcd"
        return deploy.missing() or ETCD.precheck()

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether a member of etcd has a leader, a primary responds, a standby streams."""
        if node.name not in DATA:
            return await ETCD.ready(node, {})
        role = await role_of(node)
        return role is not None and role.timeline != 0

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The primary of the highest timeline; None if no primary responds."""
        databases = [server for server in servers if server.name in DATA]
        roles = await asyncio.gather(*(role_of(server) for server in databases))
        leading = [role for role in roles if role is not None and not role.standby]
        last = max(leading, key=attrgetter("timeline"), default=None)
        return None if last is None else Leader(last.name, last.timeline)

    async def fail_over(
        self, leader: Node, servers: Sequence[Node], options: Mapping[str, str], how: str
    ) -> None:
        """As `FailsOver`: a switchover by the REST API of the leader's Patroni."""
        request = urllib.request.Request(
            f"http://{leader.address}:{REST_PORT}/switchover",
            data=json.dumps({"leader": leader.name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            await asyncio.to_thread(_send, request)
        except (OSError, urllib.error.HTTPError) as error:
            raise EnvironmentFailed(
                f"{leader.name}: the switchover was refused: {error}"
            ) from error


def _send(request: urllib.request.Request) -> None:
    with urllib.request.urlopen(request, timeout=SWITCHED_S):
        return


def settings(node: Node, etcd: Sequence[str], data: str) -> dict[str, Json]:
    """Patroni's configuration of one database."""
    server: dict[str, Json] = {name: value for name, value in SETTINGS.items() if name not in OWNED}
    login: dict[str, Json] = {"username": USER}
    psql = binary("psql") or "psql"
    return {
        "scope": "lock",
        "name": node.name,
        "restapi": _at(node, REST_PORT),
        "etcd3": {"hosts": [f"{address}:{ETCD_PORT}" for address in etcd]},
        "bootstrap": {
            "dcs": {
                "ttl": TTL_S,
                "loop_wait": LOOP_S,
                "retry_timeout": RETRY_S,
                "postgresql": {"use_pg_rewind": True, "use_slots": False},
            },
            "initdb": ["encoding=UTF8", "locale=C"],
            "post_init": f'{psql} -c "{SCHEMA.strip()}"',
        },
        "postgresql": {
            **_at(node, PORT),
            "data_dir": f"{data}/{HERE}",
            "bin_dir": str(binary("postgres")).removesuffix("/postgres"),
            "pgpass": f"{data}/pgpass",
            "database": DATABASE,
            "authentication": {"superuser": login, "replication": login},
            "pg_hba": [f"host all,replication {USER} samenet trust"],
            "parameters": {**server, "wal_retrieve_retry_interval": RETRY},
        },
        "watchdog": {"mode": "off"},
    }


def _at(node: Node, port: int) -> dict[str, Json]:
    return dict.fromkeys(("listen", "connect_address"), f"{node.address}:{port}")


SYSTEM = PostgresPatroni()
