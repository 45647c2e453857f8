"""A simulated key-value server with expiring keys, for Redlock in the simulator.

It implements the part of the Redis wire format that the client uses: SET NX PX, the two scripts,
GET, DEL and PING. It is not Redis: it recognizes those two scripts by their text and rejects all
others. As in Redis, the time to live becomes a time of the server's own wall clock when the key is
set, so that a clock step ends leases early, or extends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.clusters.systems.redlock.client import RELEASE, RENEW
from holdfast.clusters.systems.reference.service.simulated_node import Host
from holdfast.harness.core.clock import MILLISECOND, SECOND

Keys = dict[str, tuple[str, int]]
"""key -> (value, expiry time in ms of the wall clock)"""

SAVES = ((3600 * SECOND, 1), (300 * SECOND, 100), (60 * SECOND, 10_000))
"""Snapshots of a server as shipped: time since the last one, and number of changes."""
OK, NIL, NO, YES = b"+OK\r\n", b"$-1\r\n", b":0\r\n", b":1\r\n"
PONG = b"+PONG\r\n"


class Store:
    """The keys of one server. `wall_ms` is its wall clock."""

    def __init__(self, wall_ms: Callable[[], int], keys: Keys) -> None:
        self._wall_ms = wall_ms
        self.keys = keys
        self.changes = 0
        """commands that changed a key, since the server's start"""

    def answer(self, words: list[str]) -> bytes:
        """The response to one command, in the wire format."""
        match [words[0].upper(), *words[1:]]:
            case ["PING"]:
                return PONG
            case ["GET", key]:
                value = self._get(key)
                return NIL if value is None else b"$%d\r\n%b\r\n" % (len(value), value.encode())
            case ["SET", key, value, "NX", "PX", ttl_ms]:
                if self._get(key) is not None:
                    return NIL
                self._put(key, value, int(ttl_ms))
                return OK
            case ["DEL", key]:
                return self._delete(key)
            case ["EVAL", script, "1", key, value, ttl_ms] if script == RENEW:
                if self._get(key) != value:
                    return NO
                self._put(key, value, int(ttl_ms))
                return YES
            case ["EVAL", script, "1", key, value] if script == RELEASE:
                return self._delete(key) if self._get(key) == value else NO
        return b"-ERR the simulated server does not know this command: %b\r\n" % words[0].encode()

    def _get(self, key: str) -> str | None:
        value, until_ms = self.keys.get(key, ("", -1))
        if key in self.keys and self._wall_ms() > until_ms:
            del self.keys[key]
        return value if key in self.keys else None

    def _put(self, key: str, value: str, ttl_ms: int) -> None:
        self.keys[key] = (value, self._wall_ms() + ttl_ms)
        self.changes += 1

    def _delete(self, key: str) -> bytes:
        if self._get(key) is None:
            return NO
        del self.keys[key]
        self.changes += 1
        return YES


class Disk:
    """The part of a store that survives its process, by `persistence`."""

    def __init__(self, host: Host, persistence: str) -> None:
        self._host = host
        self._persistence = persistence
        self._saved_ns = host.mono_ns()
        self._saved_changes = 0

    def kept(self) -> Keys:
        """The keys when the server starts."""
        return dict(self._host.kept or {})

    def after(self, store: Store, changes: int) -> None:
        """A command was executed; `changes` is the number of changes before it."""
        if self._persistence == "always" and store.changes > changes:
            # A torn record of the log is cut off when the server restarts.
            self._host.sync(lambda: self._keep(store), lambda share: None)
        elif self._persistence == "stock" and self._due(store):
            self._saved_ns, self._saved_changes = self._host.mono_ns(), store.changes
            self._keep(store)

    def _due(self, store: Store) -> bool:
        since_ns = self._host.mono_ns() - self._saved_ns
        changed = store.changes - self._saved_changes
        return any(since_ns > wait_ns and changed >= least for wait_ns, least in SAVES)

    def _keep(self, store: Store) -> None:
        self._host.kept = dict(store.keys)


class Connection(asyncio.Protocol):
    """One client connection: a response to each command, in order."""

    def __init__(self, store: Store, disk: Disk) -> None:
        self._store, self._disk = store, disk
        self._bytes = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._bytes += data
        while (parsed := command(self._bytes)) is not None:
            words, size = parsed
            self._bytes = self._bytes[size:]
            before = self._store.changes
            reply = self._store.answer(words)
            self._disk.after(self._store, before)
            self._transport.write(reply)


def command(data: bytes) -> tuple[list[str], int] | None:
    """The words of the first command and its size in bytes; None if it is not complete yet."""
    head, _, rest = data.partition(b"\r\n")
    words: list[str] = []
    at = len(head) + 2
    if not rest or not head.startswith(b"*"):
        return None
    for _ in range(int(head[1:])):
        end = data.find(b"\r\n", at)
        if end < 0:
            return None
        size = int(data[at + 1 : end])
        if len(data) < end + 2 + size + 2:
            return None
        words.append(data[end + 2 : end + 2 + size].decode())
        at = end + 2 + size + 2
    return words, at


async def serve(config: Mapping[str, Any], host: Host) -> None:
    """One server, until its process ends."""
    disk = Disk(host, str(config["persistence"]))
    store = Store(lambda: host.wall_ns() // MILLISECOND, disk.kept())
    loop = asyncio.get_running_loop()
    await loop.create_server(
        lambda: Connection(store, disk), str(config["address"]), int(config["port"])
    )
    await loop.create_future()
