"""One adapter of a Redis library against real servers: what it says of each call, and the keys.

`python -S -P -m tests.clusters.adapter_trial ADAPTER EXPIRE ADDRESS=SERVER...` prints a row of JSON
for each call: what was done before, the outcome that the adapter claims, and the server's own
state before and after the call. A process of its own, as the library under test needs. The library
reaches each server through a proxy at ADDRESS, which can lose a request or a reply.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.clusters.libraries import client as libraries
from holdfast.clusters.systems.redis import PORT
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Answer, Grant, Mode, Status
from holdfast.harness.core.ports import ClientSetup

LEASE_NS, SHORT_MS = 20 * SECOND, 5_000
"""The lease, and the rest of it that a renewal meets."""
WAIT_NS, HUNG_S = 1_200_000_000, 5
REACHED_WITHIN_S = 2
SOMEBODY = "another owner"
Keys = dict[str, tuple[str, int]]
"""Key -> its value, and the rest of its lease in ms, -1 for none."""


def every(packet: bytes) -> bool:
    """Any packet."""
    return True


class Proxy:
    """Forwards to a server. `loses`: "request" or "reply", and the connection is closed then.

    only   which requests are lost, or lose their reply; all by default
    """

    def __init__(self, address: str, server: str, port: int = PORT) -> None:
        self.loses = ""
        self.only: Callable[[bytes], bool] = every
        self._server, self._port = server, port
        self._door = socket.create_server((address, port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._door.accept()
            far = socket.create_connection((self._server, self._port))
            asked = threading.Event()
            for ends in ((near, far, "request"), (far, near, "reply")):
                threading.Thread(target=self._pump, args=(*ends, asked), daemon=True).start()

    def _pump(
        self, source: socket.socket, target: socket.socket, what: str, asked: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                # A request may be several packets, of which the first shows what it is.
                if what == "request" and self.loses and self.only(data):
                    asked.set()
                if self.loses == what and (asked.is_set() or self.only is every):
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Server:
    """One Redis server, asked without any library, and the proxy before it."""

    def __init__(self, address: str, server: str) -> None:
        self.proxy = Proxy(address, server)
        self._link = socket.create_connection((server, PORT), timeout=10)
        self._lines = self._link.makefile("rb")

    def do(self, *words: str) -> Any:
        """The reply to a command; an error of the server as an exception."""
        packed = [f"*{len(words)}\r\n".encode()]
        for word in (word.encode() for word in words):
            packed.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self._link.sendall(b"".join(packed))
        return self._reply()

    def _reply(self) -> Any:
        line = self._lines.readline().rstrip()
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._lines.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        return rest.decode()

    def keys(self) -> Keys:
        """All keys that hold a text: locks are such."""
        names = [name for name in self.do("KEYS", "*") if self.do("TYPE", name) == "string"]
        return {name: (self.do("GET", name), self.do("PTTL", name)) for name in sorted(names)}


def _nothing(server: Server, ours: Sequence[str]) -> None:
    """The keys stay as they are."""


def _gone(server: Server, ours: Sequence[str]) -> None:
    server.do("DEL", *ours)


def _other(server: Server, ours: Sequence[str]) -> None:
    for key in ours:
        server.do("SET", key, SOMEBODY, "PX", str(LEASE_NS // 1_000_000))


def _lasting(server: Server, ours: Sequence[str]) -> None:
    for key in ours:
        server.do("PERSIST", key)


def _read_only(server: Server, ours: Sequence[str]) -> None:
    server.do("REPLICAOF", "127.0.0.1", "1")


def _cut(server: Server, ours: Sequence[str]) -> None:
    server.proxy.loses = "request"


def _reply_lost(server: Server, ours: Sequence[str]) -> None:
    server.proxy.loses = "reply"


STATES: Mapping[str, Callable[[Server, Sequence[str]], None]] = {
    "ours": _nothing,
    "gone": _gone,
    "other": _other,
    "lasting": _lasting,
    "read-only": _read_only,
    "cut": _cut,
    "reply-lost": _reply_lost,
}
WITHOUT_KEYS = ("read-only", "cut", "reply-lost")
"""What the servers' state is made before a call."""


class Trial:
    """Two clients of one library, and the servers that both use."""

    def __init__(self, adapter: str, expire: str, addresses: Sequence[str]) -> None:
        pairs = [pair.split("=") for pair in addresses]
        self.servers = [Server(*pair) for pair in pairs]
        named = [(f"n{n}", address) for n, (address, _) in enumerate(pairs, 1)]
        make = getattr(libraries, adapter)
        self.clients = [
            make(
                ClientSetup(
                    process=n, name=f"c{n}", servers=named, lease_ns=LEASE_NS,
                    options={"expire": expire}, tell=lambda op, **rest: None,
                )
            )
            for n in (1, 2)
        ]  # fmt: skip
        self.expire, self.attempts = expire, 0
        self.context = contextvars.copy_context()
        self.threads = [ThreadPoolExecutor(1) for _ in self.clients]
        self.calling: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def do(self, who: int, call: str, *args: Any, **named: Any) -> Any:
        """The answer to a call; INFO if the library hangs, which ends when the state is healed."""
        client = self.clients[who]
        if getattr(client, "blocking", False):
            work = partial(getattr(client, call), *args, **named)
            self.calling = asyncio.get_running_loop().run_in_executor(self.threads[who], work)
        else:
            # One context for all calls, as in a client: coredis keeps its token there.
            work = getattr(client, call)(*args, **named)
            self.calling = asyncio.get_running_loop().create_task(work, context=self.context)
        await asyncio.wait([self.calling], timeout=HUNG_S)
        if not self.calling.done():
            return Answer(outcome=Status.INFO, error=f"no answer within {HUNG_S} s")
        return self.calling.result()

    def state(self) -> list[Keys]:
        return [server.keys() for server in self.servers]

    async def acquire(self, who: int, lock: str, wait_ns: int = 0) -> tuple[Any, Grant]:
        self.attempts += 1
        asked = {"ttl_ns": LEASE_NS, "wait_ns": wait_ns, "mode": Mode.EXCLUSIVE}
        said = await self.do(who, "acquire", lock, attempt=self.attempts, **asked)
        grant = Grant(lock=lock, attempt=self.attempts, token=-1, ttl_ns=LEASE_NS, granted_at_ns=0)
        return said, grant

    async def new_keys(self, before: Sequence[Keys]) -> list[list[str]]:
        """The keys that each server has in addition. A library may return when a majority has
        answered, while its request to the last server is still on its way."""
        deadline_s = time.monotonic() + REACHED_WITHIN_S
        while True:
            pairs = zip(self.state(), before, strict=True)
            ours = [sorted(set(now) - set(then)) for now, then in pairs]
            if all(ours) or time.monotonic() > deadline_s:
                return ours
            await asyncio.sleep(0.01)

    async def run(self) -> None:
        """Every call in every state, each on a lock of its own."""
        for client in range(2):
            await self.do(client, "open")
        for call in ("try", "acquire"):
            for state in ("free", "ours", *WITHOUT_KEYS):
                for hit in sorted({1, len(self.servers)}):
                    await self.meet_acquire(call, state, hit)
        for call in ("renew", "release"):
            for state in STATES:
                for hit in sorted({1, len(self.servers)}):
                    await self.meet(call, state, hit)
        await self.meet("release", "released", len(self.servers))
        await self.meet("renew", "released", len(self.servers))

    async def meet_acquire(self, call: str, state: str, hit: int) -> None:
        lock, none = f"{call}-{state}-{hit}", [list[str]()] * len(self.servers)
        if state == "ours":
            await self.acquire(0, lock)
        elif state in WITHOUT_KEYS:
            self.spoil(state, hit, none)
        before = self.state()
        said, _ = await self.acquire(1, lock, 0 if call == "try" else WAIT_NS)
        await self.tell(call, state, hit, said, none, before)

    async def meet(self, call: str, state: str, hit: int) -> None:
        """A renewal or release of a holder; `hit` servers are brought into the state before."""
        free = self.state()
        said, grant = await self.acquire(0, f"{call}-{state}-{hit}")
        assert said.outcome.name == "OK", (call, state, said)
        ours = await self.new_keys(free)
        for server, keys in zip(self.servers, ours, strict=True):
            for key in keys if self.expire == "lease" and call == "renew" else ():
                server.do("PEXPIRE", key, str(SHORT_MS))
        if state == "released":
            await self.do(0, "release", grant)
        else:
            self.spoil(state, hit, ours)
        before = self.state()
        words = {"ttl_ns": LEASE_NS} if call == "renew" else {}
        try:
            said = await self.do(0, call, grant, **words)
        except KeyError:
            return  # The client keeps no lock object of an attempt that it has released.
        await self.tell(call, state, hit, said, ours, before)

    def spoil(self, state: str, hit: int, ours: Sequence[Sequence[str]]) -> None:
        for server, keys in list(zip(self.servers, ours, strict=True))[:hit]:
            if keys or state in WITHOUT_KEYS:
                STATES[state](server, keys)

    async def tell(
        self,
        call: str,
        state: str,
        hit: int,
        said: Any,
        ours: Sequence[Sequence[str]],
        before: Sequence[Keys],
    ) -> None:
        after = self.state()
        for server in self.servers:
            server.proxy.loses = ""
            server.do("REPLICAOF", "NO", "ONE")
        await asyncio.wait([self.calling])
        row = {
            "call": call, "state": state, "hit": hit, "outcome": said.outcome.name,
            "error": said.error, "ours": ours, "before": before, "after": after,
        }  # fmt: skip
        sys.stdout.write(json.dumps(row) + "\n")
        for server in self.servers:
            server.do("FLUSHALL")


async def main(argv: Sequence[str]) -> None:
    await Trial(argv[1], argv[2], argv[3:]).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv))
    sys.stdout.flush()
    os._exit(0)  # Not by way of threads and sockets that libraries leave.
