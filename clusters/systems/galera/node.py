"""Starts a MariaDB server of a Galera cluster on a node; creates its files the first time.

Run as `python -S -m holdfast.clusters.systems.galera.node --config JSON`, where JSON is {"data",
"name", "address", "peers" (addresses of all servers, separated by commas), "first" ("yes" on the
server that starts the cluster)}. Exit code 1 with the last lines of the
failed step.

The first server creates its files and starts the cluster; the others begin with an empty folder and
get a copy by rsync. A server that was killed looks up its position in its own log and fetches what
it has missed, or a copy. If all were killed, the servers of the last component with a majority form
it again when they have met (pc.recovery).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.clusters.systems.galera import GROUP_PORT
from holdfast.clusters.systems.mariadb.server import (
    DONE,
    FIRST,
    FLAGS,
    HERE,
    SETTINGS,
    binary,
    own,
    prepare,
)

PROVIDER = "/usr/lib/galera/libgalera_smm.so"
STARTED = "cluster-was-started"
"""Marks that a server has been a member, so that it never starts another cluster."""
POSITION = re.compile(r"Recovered position:\s*(\S+:-?\d+)")
RECOVER_WITHIN_S, PEER_WITHIN_S, EVERY_S = 60, 60, 0.1

TIMES = {
    "evs.keepalive_period": "PT0.3S",
    "evs.inactive_check_period": "PT0.3S",
    "evs.suspect_timeout": "PT1.5S",
    "evs.inactive_timeout": "PT4S",
    "evs.install_timeout": "PT4S",
    "pc.wait_prim_timeout": "PT1H",
}
"""When a silent server is suspected and excluded; a server that comes back alone waits for the
others."""


def recovered(server: str, words: Sequence[str]) -> str:
    """The position of a server in its own log, as in UUID:7; "" if it reports none.

    Raises OSError and subprocess.SubprocessError.
    """
    done = subprocess.run(
        [server, *words, "--wsrep-recover"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=RECOVER_WITHIN_S, check=True,
    )  # fmt: skip
    position = POSITION.search(done.stderr) or POSITION.search(done.stdout)
    return position[1] if position else ""


def wait_for(addresses: Sequence[str]) -> bool:
    """Whether a member of the group accepts a connection within the bound."""
    end_s = time.monotonic() + PEER_WITHIN_S
    while time.monotonic() < end_s:
        for address in addresses:
            with suppress(OSError), socket.create_connection((address, GROUP_PORT), 1):
                return True
        time.sleep(EVERY_S)
    return False


def settings(config: Mapping[str, str]) -> list[str]:
    """Arguments of the server that every start has."""
    address = config["address"]
    provider = {
        "base_host": address,
        "gmcast.listen_addr": f"tcp://{address}:{GROUP_PORT}",
        "ist.recv_addr": address,
        "gcache.size": "16M",
        **TIMES,
    }
    named = {
        **SETTINGS,
        "datadir": str(Path(config["data"]) / HERE),
        "bind-address": address,
        "binlog-format": "ROW",
        "innodb-autoinc-lock-mode": "2",
        "wsrep-on": "ON",
        "wsrep-provider": PROVIDER,
        "wsrep-cluster-name": "lock",
        "wsrep-cluster-address": f"gcomm://{config['peers']}",
        "wsrep-node-name": config["name"],
        "wsrep-node-address": address,
        "wsrep-sst-method": "rsync",
        "wsrep-provider-options": ";".join(f"{key}={value}" for key, value in provider.items()),
    }
    return ["--no-defaults", *(f"--{key}={value}" for key, value in named.items()), *FLAGS, *own()]


def beginning(config: Mapping[str, str], server: str, words: Sequence[str]) -> list[str]:
    """Arguments of this start alone. Raises OSError and subprocess.SubprocessError."""
    data = Path(config["data"])
    others = [peer for peer in config["peers"].split(",") if peer != config["address"]]
    if (data / STARTED).exists():
        position = recovered(server, words)
        return [f"--wsrep-start-position={position}"] if position else []
    (data / STARTED).touch()
    if config["first"] == "yes":
        return ["--wsrep-new-cluster", f"--init-file={data / FIRST}"]
    if not wait_for(others):
        raise OSError("no other server accepts connections")
    return []


def main(argv: Sequence[str] | None = None) -> int:
    """Does not return on success: this process becomes the server."""
    parser = argparse.ArgumentParser(description="a MariaDB server of a Galera cluster")
    parser.add_argument("--config", required=True, help="JSON, see the module's documentation")
    config: Mapping[str, str] = json.loads(parser.parse_args(argv).config)
    server, install = binary("mariadbd"), binary("mariadb-install-db")
    if server is None or install is None or not Path(PROVIDER).exists():
        sys.stderr.write("mariadb-server or galera-4 is not installed on this node\n")
        return 1
    words = settings(config)
    try:
        if config["first"] == "yes" and not (Path(config["data"]) / DONE).exists():
            prepare(install, Path(config["data"]))
        (Path(config["data"]) / HERE).mkdir(exist_ok=True)
        words += beginning(config, server, words)
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"cannot start a server of the cluster: {error}\n")
        return 1
    return os.execv(server, [server, *words])


if __name__ == "__main__":
    sys.exit(main())
