"""Starts a PostgreSQL server from the driver, and checks that it accepts connections."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
from collections.abc import Mapping
from types import MappingProxyType

from holdfast.clusters.systems.config_files import (
    ADDRESS,
    FOLDER,
    LOG,
    OTHER_FILES,
    ConfigFile,
    by_equals,
    chosen_by,
)
from holdfast.clusters.systems.postgres import DATABASE, PORT, USER
from holdfast.clusters.systems.postgres.server import binary
from holdfast.harness.core.ports import Command, Node, Place

MODULE = "holdfast.clusters.systems.postgres.server"
SYNCED = "synchronous_commit"
POOLER = "holdfast.clusters.systems.postgres.pooler"
READY_WITHIN_S = 0.5
PROTOCOL = 3 << 16
UNPRIVILEGED = ("unshare", "--user", "--ipc", "--map-user=65534", "--", "true")
CONFIG_FILE = ConfigFile(
    lines=by_equals,
    owned={
        "port": ADDRESS, "listen_addresses": ADDRESS, "unix_socket*": ADDRESS, "ssl*": ADDRESS,
        "data_directory": FOLDER, "external_pid_file": FOLDER, "include*": OTHER_FILES,
        "*_file": OTHER_FILES, "*_libraries": OTHER_FILES, "logging_collector": LOG,
        "log_dest*": LOG, "log_dir*": LOG, "synchronous_commit": chosen_by(SYNCED),
        "fsync": "the promises assume it; a fault is --nemesis sync-lie",
        "full_page_writes": "the promises assume it",
        "wal_level": chosen_by("wal_level"), "primary_*": chosen_by("replicas"),
        "synchronous_standby_names": chosen_by("synchronous"), "restore_command": OTHER_FILES,
        "archive_*": OTHER_FILES,
    },
)  # fmt: skip


def command(
    node: Node,
    place: Place,
    *,
    pooled: bool = False,
    synchronous_commit: str = "on",
    replication: Mapping[str, str] = MappingProxyType({}),
    own: Mapping[str, str] = MappingProxyType({}),
) -> Command:
    """The server of one node, behind a pooler if requested; both refuse to run as root.

    replication   further settings of a server with a standby, or of a standby
    own           settings of the user
    """
    module = POOLER if pooled else MODULE
    data = place.run_dir / "data" / node.name
    data.mkdir(parents=True, exist_ok=True)
    ours = {"data": str(data), "address": node.address, SYNCED: synchronous_commit}
    config = json.dumps({**ours, **replication, **({"own": json.dumps(dict(own))} if own else {})})
    return Command(
        argv=(node.python, "-S", "-P", "-m", module, "--config", config),
        log=place.run_dir / "logs" / node.name / "postgres.log",
        prelude=module,
        nobody=True,
    )


def missing() -> str | None:
    """Why this machine cannot start one outside a container; None if it can."""
    if binary("postgres") is None or binary("initdb") is None:
        return "postgres is not installed; install postgresql, or use --backend docker"
    if os.geteuid() == 0 and subprocess.run(UNPRIVILEGED, capture_output=True).returncode:
        return (
            "postgres refuses to run as root, and this machine has no user namespaces"
            " to run it as another user; run as another user, or use --backend docker"
        )
    return None


async def ready(node: Node) -> bool:
    """Whether the server opens a session."""
    try:
        async with asyncio.timeout(READY_WITHIN_S):
            return await _answers(node.address)
    except (OSError, EOFError, TimeoutError):
        return False


async def _answers(address: str) -> bool:
    """Opens a session by the wire protocol: "R" is accepted, "E" an error."""
    reader, writer = await asyncio.open_connection(address, PORT)
    try:
        pairs = ("user", USER, "database", DATABASE, "")
        body = struct.pack("!i", PROTOCOL) + b"".join(word.encode() + b"\0" for word in pairs)
        writer.write(struct.pack("!i", len(body) + 4) + body)
        kind = await reader.readexactly(1)
        writer.write(b"X" + struct.pack("!i", 4))
        return kind == b"R"
    finally:
        writer.close()
