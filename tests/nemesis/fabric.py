"""Real nodes for tests: sleeping processes in network namespaces that one bridge joins.

Nothing touches the host's network, and all of it is gone when the processes are.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.nemesis.agent import nft
from tests import needs
from tests.nemesis.waiting import wait_until

CLONE_NEWNET = 0x4000_0000


def need() -> None:
    """Skips the test where no such nodes can be made, or no packet be dropped between them."""
    for command in ("unshare", "nsenter", "ip"):
        needs.binary(command)
    needs.unless(nft.probe())


def address(n: int) -> str:
    """The address of the n-th node."""
    return f"10.77.0.{n + 1}"


def isolated(argv: list[str]) -> subprocess.Popen[bytes]:
    """Starts a process in a network namespace of its own and waits until it is there."""
    ours = Path("/proc/self/ns/net").readlink()
    process = subprocess.Popen(["unshare", "--net", *argv])
    there = Path(f"/proc/{process.pid}/ns/net")
    assert wait_until(lambda: there.readlink() != ours, time.monotonic_ns() + 5_000_000_000)
    return process


@contextmanager
def nodes(count: int) -> Iterator[list[int]]:
    """Pids of `count` nodes that reach each other under their addresses."""
    processes = [isolated(["sleep", "300"]) for _ in range(count + 1)]
    try:
        bridge, *pids = [process.pid for process in processes]
        links = ["link add br0 type bridge", "link set br0 up"]
        for n, pid in enumerate(pids):
            links += [f"link add v{n} type veth peer name eth0 netns {pid}"]
            links += [f"link set v{n} master br0 up"]
        _ip(bridge, links)
        for n, pid in enumerate(pids):
            _ip(pid, [f"addr add {address(n)}/24 dev eth0", "link set eth0 up", "link set lo up"])
        yield pids
    finally:
        for process in processes:
            process.kill()
            process.wait()


def udp(pid: int, host: str) -> socket.socket:
    """A datagram socket on port 7400 of a node; it waits a tenth of a second for what comes."""
    made: list[socket.socket] = []

    def attempt() -> None:
        fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        assert ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) == 0
        os.close(fd)
        made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    made[0].settimeout(0.1)
    made[0].bind((host, 7400))
    return made[0]


def hears(listener: socket.socket, speaker: socket.socket) -> bool:
    """Whether a datagram from one socket arrives at the other."""
    speaker.sendto(b"?", listener.getsockname())
    try:
        return listener.recv(16) == b"?"
    except TimeoutError:
        return False


def _ip(pid: int, lines: list[str]) -> None:
    subprocess.run(
        ["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-batch", "-"],
        input="\n".join(lines).encode(),
        check=True,
        timeout=10,
    )
