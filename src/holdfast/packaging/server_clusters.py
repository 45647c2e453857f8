"""Servers that form one cluster, for the trials of a script, on loopback."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.clusters.backends import processes
from holdfast.clusters.backends.processes import DIES_WITH_DRIVER
from holdfast.clusters.systems.galera.node import PROVIDER
from holdfast.clusters.systems.mariadb.server import FLAGS, SETTINGS, UNSYNCED, binary
from holdfast.harness.core.errors import EnvironmentFailed

INSTALL_S = 120
LOOPBACK = "127.0.0.1"
Free = Callable[[], int]
"""A port of loopback on which nothing listens."""


def nats(folder: Path, ports: Sequence[int], free: Free) -> list[list[str]]:
    """The words that start the servers of a cluster with JetStream."""
    peers = [free() for _ in ports]
    routes = [f"nats-route://{LOOPBACK}:{peer}" for peer in peers]
    words = []
    for port, peer in zip(ports, peers, strict=True):
        config = folder / str(port) / "nats.conf"
        listens = {"name": "c", "listen": f"{LOOPBACK}:{peer}", "routes": routes}
        config.write_text(
            json.dumps(
                {
                    "server_name": f"n{port}",
                    "listen": f"{LOOPBACK}:{port}",
                    "jetstream": {"store_dir": str(folder / str(port))},
                    "cluster": listens,
                }
            )
        )
        words.append(["nats-server", "-c", str(config)])
    return words


def galera(folder: Path, ports: Sequence[int], free: Free) -> list[list[str]]:
    """The words that start the servers of a cluster; the first one starts it.

    Raises EnvironmentFailed if its files cannot be made.
    """
    server, install = binary("mariadbd"), binary("mariadb-install-db")
    assert server is not None and install is not None
    # A daemon of rsync that root starts gives up its rights, and cannot write the files.
    prelude = processes.AS_NOBODY if os.geteuid() == 0 else ()
    made = [install, "--no-defaults", f"--datadir={folder / str(ports[0]) / 'files'}"]
    done = subprocess.run(
        [*DIES_WITH_DRIVER, *prelude, *made, "--skip-test-db", *UNSYNCED],
        capture_output=True, text=True, check=False, timeout=INSTALL_S,
    )  # fmt: skip
    if done.returncode:
        raise EnvironmentFailed(f"mariadb-install-db: {done.stderr.strip().splitlines()[-1:]}")
    groups = [free() for _ in ports]
    met = ",".join(f"{LOOPBACK}:{group}" for group in groups)
    words = []
    for port, group in zip(ports, groups, strict=True):
        files = folder / str(port) / "files"
        files.mkdir(exist_ok=True)
        settings = {
            **SETTINGS,
            "port": str(port),
            "socket": str(folder / f"{port}.sock"),
            "datadir": str(files),
            "bind-address": LOOPBACK,
            "binlog-format": "ROW",
            "innodb-autoinc-lock-mode": "2",
            "wsrep-on": "ON",
            "wsrep-provider": PROVIDER,
            "wsrep-cluster-address": f"gcomm://{met}",
            "wsrep-node-address": f"{LOOPBACK}:{group}",
            "wsrep-sst-method": "rsync",
            "wsrep-sst-receive-address": f"{LOOPBACK}:{free()}",
            "wsrep-provider-options": f"gmcast.listen_addr=tcp://{LOOPBACK}:{group};"
            f"ist.recv_addr={LOOPBACK}:{free()}",
        }
        named = [f"--{name}={value}" for name, value in settings.items()]
        words.append([*prelude, server, "--no-defaults", *named, *FLAGS])
    words[0].append("--wsrep-new-cluster")
    return words


CLUSTERS: dict[str, Callable[[Path, Sequence[int], Free], list[list[str]]]] = {
    "nats": nats,
    "galera": galera,
}
