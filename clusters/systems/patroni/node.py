"""Runs Patroni on a node, with the PostgreSQL server that it starts.

Run as `python -S -m holdfast.clusters.systems.patroni.node --config JSON`, where JSON is {"file",
"etcd"}: the path of Patroni's configuration, and the addresses of etcd, separated by spaces.
Patroni detaches its server, so this process adopts it: what kills or pauses the node reaches both.
It exits with Patroni's exit code.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from holdfast.clusters.systems.etcd import PORT

PYTHON, PATRONI = "/usr/bin/python3", "/usr/bin/patroni"
PR_SET_CHILD_SUBREAPER = 36
ETCD_WITHIN_S, EVERY_S = 15, 0.05


def wait_for(addresses: Sequence[str]) -> bool:
    """Whether a member of etcd accepts a connection within the bound."""
    end_s = time.monotonic() + ETCD_WITHIN_S
    while time.monotonic() < end_s:
        for address in addresses:
            with suppress(OSError), socket.create_connection((address, PORT), 1):
                return True
        time.sleep(EVERY_S)
    return False


def adopt_orphans() -> None:
    """Makes this process the parent of every descendant whose parent exits. Errors: OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER was refused")


def reap_until(pid: int) -> int:
    """Reaps children until this one has exited; its exit code."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns when Patroni has exited."""
    parser = argparse.ArgumentParser(description="Patroni with its PostgreSQL server")
    parser.add_argument("--config", required=True, help="JSON, see the module's documentation")
    config: Mapping[str, str] = json.loads(parser.parse_args(argv).config)
    if not wait_for(config["etcd"].split()):
        sys.stderr.write("no member of etcd accepts connections\n")
        return 1
    adopt_orphans()
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    patroni = subprocess.Popen([PYTHON, PATRONI, config["file"]], env=environ)
    return abs(reap_until(patroni.pid))


if __name__ == "__main__":
    sys.exit(main())
