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
from contextlib import contextmanager, suppress
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


def nftables(pid: int, commands: str) -> str:
    """What nftables answers to commands in the network of a process, by its library or its program:
    a machine may have either alone, and the fault agent needs no more."""
    network = nft.Namespace(pid)
    try:
        return network.run(commands)
    finally:
        network.forget()


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


def socket_of(pid: int, kind: socket.SocketKind) -> socket.socket:
    """A new socket in the network of a node."""
    made: list[socket.socket] = []

    def attempt() -> None:
        fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        assert ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) == 0
        os.close(fd)
        made.append(socket.socket(socket.AF_INET, kind))

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return made[0]


def udp(pid: int, host: str) -> socket.socket:
    """A datagram socket on port 7400 of a node; it waits a tenth of a second for what comes."""
    made = socket_of(pid, socket.SOCK_DGRAM)
    made.settimeout(0.1)
    made.bind((host, 7400))
    return made


class Echo:
    """A server on port 7500 of a node that sends back what it receives."""

    def __init__(self, pid: int, host: str) -> None:
        self._socket = socket_of(pid, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, 7500))
        self._socket.listen(64)
        self._host = host
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Echo:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def connect(self, pid: int, within_s: float = 0.3, connect_s: float = 3.0) -> socket.socket:
        """A connection to it from a node, whose calls take so long at most. Errors: OSError."""
        made = socket_of(pid, socket.SOCK_STREAM)
        made.settimeout(connect_s)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            made.connect((self._host, 7500))
        except OSError:
            made.close()
            raise
        made.settimeout(within_s)
        return made

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=_echo, args=(connection,), daemon=True).start()


def _echo(connection: socket.socket) -> None:
    with suppress(OSError), connection:
        while data := connection.recv(65536):
            connection.sendall(data)


def echoed(connection: socket.socket, data: bytes) -> bytes:
    """What came back of some data before the connection's timeout."""
    found = b""
    with suppress(TimeoutError):
        connection.sendall(data)
        while len(found) < len(data) and (piece := connection.recv(65536)):
            found += piece
    return found


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
