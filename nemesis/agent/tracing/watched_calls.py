"""Which system calls a fault waits for: by number, and by what their descriptor or path is.

Numbers of x86-64. A send is any call that may write to a connected TCP socket, so that C, Go, Node,
the JVM and Python are alike; a write goes to a regular file that is not the program's output.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from holdfast.nemesis.agent.tracing import file_names
from holdfast.nemesis.agent.tracing.ptrace import Entry

_WRITES = {1: "write", 18: "pwrite64", 20: "writev", 296: "pwritev", 328: "pwritev2"}
_SYNCS = {74: "fsync", 75: "fdatasync"}
CALLS: Mapping[str, Mapping[int, str]] = {
    "send": {1: "write", 20: "writev", 44: "sendto", 46: "sendmsg", 307: "sendmmsg"},
    "receive": {0: "read", 19: "readv", 45: "recvfrom", 47: "recvmsg", 299: "recvmmsg"},
    "write": _WRITES,
    "sync": _SYNCS,
    "disk": {**_WRITES, **_SYNCS},
    **file_names.NAMES,
    **file_names.LOCKS,
}
"""Word of a plan -> number -> name; the first argument is the descriptor, but of calls on names."""
ON_SOCKETS = ("send", "receive")
ONE_BUFFER = ("write", "pwrite64", "sendto")
"""Calls whose third argument is the number of bytes."""
ENDS_WITH_0 = (
    *_SYNCS.values(),
    *(name for word in file_names.NAMES if word != "open" for name in CALLS[word].values()),
    *(name for word in file_names.LOCKS for name in CALLS[word].values()),
)
"""Calls that return 0 if all went well."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The calls of one fault.

    calls      a key of CALLS
    addresses  IPv4 addresses of the peers of a socket; empty: any
    file       pattern of a file's name, such as "*.aof", or of its path; empty: any
    """

    calls: str
    addresses: frozenset[str] = frozenset()
    file: str = ""
    _peers: dict[str, str] = field(default_factory=dict)

    def name(self, entry: Entry) -> str:
        """The name of a call by its number, "" if it is none of these."""
        return CALLS[self.calls].get(entry.number, "")

    def target(self, thread: int, entry: Entry) -> str:
        """The peer ("10.77.1.3:6379") or file that a call is about; "" if it is not watched."""
        if not self.name(entry) or not file_names.is_one(self.calls, entry):
            return ""
        if self.calls in file_names.NAMES:
            return file_names.named(thread, entry, self.file)
        descriptor = entry.arguments[0]
        if self.calls in file_names.LOCKS:
            return file_names.locked(thread, descriptor, self.file)
        try:
            link = os.readlink(f"/proc/{thread}/fd/{descriptor}")
        except OSError:
            return ""
        if self.calls in ON_SOCKETS:
            return self._peer(thread, link) if link.startswith("socket:[") else ""
        return link if self._is_data(thread, descriptor, link) else ""

    def _peer(self, thread: int, link: str) -> str:
        if link not in self._peers:
            self._peers.update(peers(thread))
            self._peers.setdefault(link, "")
        peer = self._peers[link]
        wanted = not self.addresses or peer.rpartition(":")[0] in self.addresses
        return peer if wanted else ""

    def _is_data(self, thread: int, descriptor: int, link: str) -> bool:
        if not file_names.fits(link, self.file):
            return False
        status = _stat(thread, descriptor)
        return (
            status is not None
            and stat.S_ISREG(status.st_mode)
            and not any(_same(status, _stat(thread, output)) for output in (1, 2))
        )


def peers(thread: int) -> dict[str, str]:
    """TCP sockets of a thread's network: "socket:[inode]" -> IPv4 address and port of the peer."""
    peer_of = {}
    for table in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/{thread}/net/{table}") as file:
            next(file, "")
            for line in file:
                words = line.split()
                address, _, port = words[2].partition(":")
                if int(port, 16):
                    peer = f"{_ipv4(address)}:{int(port, 16)}"
                    peer_of[f"socket:[{words[9]}]"] = peer
    return peer_of


def _ipv4(text: str) -> str:
    """The address of /proc/net/tcp: 0100007F is 127.0.0.1; of tcp6 the last 32 bits, if mapped."""
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(text[-8:])))


def _stat(thread: int, descriptor: int) -> os.stat_result | None:
    with suppress(OSError):
        return os.stat(f"/proc/{thread}/fd/{descriptor}")
    return None


def _same(one: os.stat_result, other: os.stat_result | None) -> bool:
    return other is not None and (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
