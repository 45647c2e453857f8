"""Starts a pgbouncer on a node, in front of a PostgreSQL server that is its child.

Run as `python -S -m holdfast.clusters.systems.postgres.pooler --config JSON`, where JSON is as for
`server`. Clients reach it at the server's usual port; the server listens on the next one.
Transaction pooling: a client has a connection of the server for one transaction at a time. Exit
code 1 with what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.clusters.systems.postgres import DATABASE, PORT, USER

SERVER = "holdfast.clusters.systems.postgres.server"
BEHIND = PORT + 1
ELSEWHERE = Path("/var/tmp/holdfast-pgbouncer")
"""For a container, which is removed with its run: the file is beside the server's if possible."""


def binary() -> str | None:
    """Path of pgbouncer, None if missing; its folder is often not in PATH."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def settings(address: str) -> str:
    """The configuration of a pgbouncer with transaction pooling and without its own log."""
    server = f"host={address} port={BEHIND} user={USER} dbname={DATABASE}"
    return (
        f"[databases]\n{DATABASE} = {server}\n[pgbouncer]\n"
        f"listen_addr = {address}\nlisten_port = {PORT}\nunix_socket_dir =\n"
        "auth_type = any\npool_mode = transaction\nserver_reset_query =\n"
        "server_login_retry = 1\n"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Does not return on success: this process becomes the pooler."""
    parser = argparse.ArgumentParser(description="pgbouncer with a PostgreSQL server behind it")
    parser.add_argument("--config", required=True, help="JSON, see the module's documentation")
    text = parser.parse_args(argv).config
    config: Mapping[str, str] = json.loads(text)
    pooler = binary()
    if pooler is None:
        sys.stderr.write("pgbouncer is not installed on this node\n")
        return 1
    wanted = Path(config["data"])
    home = wanted if os.access(wanted, os.W_OK) else ELSEWHERE
    home.mkdir(exist_ok=True)
    path = home / "pgbouncer.ini"
    path.write_text(settings(config["address"]))
    behind = json.dumps({**config, "port": str(BEHIND)})
    subprocess.Popen([sys.executable, "-S", "-P", "-m", SERVER, "--config", behind])
    return os.execv(pooler, [pooler, str(path)])


if __name__ == "__main__":
    sys.exit(main())
