"""One adapter of a lock that is no Redis key: what it says of each call, and who holds.

`python -S -P -m tests.clusters.holder_trial SERVICE CLIENT ADDRESS=SERVER OPTIONS` prints a row of
JSON for each call: what was done before, the outcome that the adapter claims, and the contenders of
the lock, as the server itself lists them, before and after the call. The first of them holds. The
library reaches the server through a proxy at ADDRESS.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.clusters.systems import mariadb, postgres
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import NO_TOKEN, Answer, Grant, Mode, Status
from holdfast.harness.core.ports import ClientSetup
from tests.clusters import store_probes
from tests.clusters.adapter_trial import Proxy, every

LEASE_NS, WAIT_NS, HUNG_S, SETTLED_S = 3 * SECOND, 1_200_000_000, 4, 25
INNODB_CACHE_S = 0.12
"""InnoDB lists the transactions anew only if nobody has asked for 0.1 s."""
OF_CURATOR = ("locks", "leases")
"""Folders of its semaphore, of which the leases are those that hold."""
ZK_DELETE = 2
"""The type of ZooKeeper's request that deletes a node."""


AT = "{address}"
"""In a text of OPTIONS: the client's address of the server."""
ACQUIRES = ("free", "theirs", "theirs, cut", "cut", "reply-lost", "undone, cut")
CALLS = ("ours", "gone", "theirs", "expired", "cut", "reply-lost", "released")
"""What the lock's state is made before a call; "undone": requests that take a contender back."""
WRITES = ("write-cut", "write-reply-lost")
"""Of a client that reads before it writes: its reads are answered."""


class Etcd:
    """One etcd server, asked over its JSON gateway and, for old libraries, by its API version 2."""

    port, states = 2379, CALLS

    lease_ns = LEASE_NS

    def __init__(self, server: str, options: Mapping[str, str]) -> None:
        self._url = f"http://{server}:{self.port}"

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self._url + path, data, timeout=10) as reply:
            return json.load(reply)

    def contenders(self, lock: str) -> list[str]:
        """Keys of a lock in the order in which they were written, each with its value."""
        whole = base64.b64encode(b"\0").decode()
        found = self._ask("/v3/kv/range", {"key": whole, "range_end": whole}).get("kvs", [])
        plain = [
            (int(one["create_revision"]), base64.b64decode(one["key"]).decode(), one.get("value"))
            for one in found
        ]
        old = [(0, one["key"], one.get("value")) for one in self._old()]
        # A key that is written anew by another has another revision.
        return [
            f"{at} {key} {value}"
            for at, key, value in sorted(plain + old)
            if lock in key.split("/")
        ]

    def _old(self) -> list[Mapping[str, Any]]:
        """Leaves below the hidden folder in which python-etcd has its locks."""
        try:
            return _leaves(self._ask("/v2/keys/_locks?recursive=true")["node"])
        except urllib.error.HTTPError:
            return []

    def delete(self, contender: str) -> None:
        """Ends its lease, and the key with it, as the server does; a key without one is deleted."""
        key = contender.split(" ")[1]
        named = {"key": base64.b64encode(key.encode()).decode()}
        for one in self._ask("/v3/kv/range", named).get("kvs", []):
            if "lease" in one:
                self._ask("/v3/lease/revoke", {"ID": one["lease"]})
        self._ask("/v3/kv/deleterange", named)
        away = urllib.request.Request(f"{self._url}/v2/keys{key}", method="DELETE")
        with suppress(OSError), urllib.request.urlopen(away, timeout=10):
            pass


def _leaves(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if not node.get("dir"):
        return [node]
    return [leaf for child in node.get("nodes", []) for leaf in _leaves(child)]


class ZooKeeper:
    """One ZooKeeper server, asked by its own protocol in a session of its own."""

    port, states = 2181, CALLS

    lease_ns = LEASE_NS

    def __init__(self, server: str, options: Mapping[str, str]) -> None:
        self._link = socket.create_connection((server, self.port), timeout=10)
        self._send(struct.pack("!iqiq", 0, 0, 60_000, 0) + _text(b"\0" * 16))
        self._reply()
        self._number = 0

    def _send(self, body: bytes) -> None:
        self._link.sendall(struct.pack("!i", len(body)) + body)

    def _reply(self) -> bytes:
        (length,) = struct.unpack("!i", self._read(4))
        return self._read(length)

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            more = self._link.recv(length - len(data))
            if not more:
                raise ConnectionError("closed by the server")
            data += more
        return data

    def _ask(self, kind: int, body: bytes) -> tuple[int, bytes]:
        """(error, the rest of the reply)."""
        self._number += 1
        self._send(struct.pack("!ii", self._number, kind) + body)
        reply = self._reply()
        return struct.unpack("!i", reply[12:16])[0], reply[16:]

    def _children(self, path: str) -> list[str]:
        error, rest = self._ask(8, _text(path.encode()) + b"\0")
        if error:
            return []
        (count,), at, names = struct.unpack("!i", rest[:4]), 4, list[str]()
        for _ in range(count):
            (length,) = struct.unpack("!i", rest[at : at + 4])
            names.append(rest[at + 4 : at + 4 + length].decode())
            at += 4 + length
        return names

    def contenders(self, lock: str) -> list[str]:
        """Nodes of a lock in the order of their numbers."""
        paths = [f"/holdfast/{lock}", f"/locks/{lock}", f"/locks/{lock}/leases"]
        found = [
            (name[-10:], f"{path}/{name}")
            for path in paths
            for name in self._children(path)
            if name not in OF_CURATOR
        ]
        return [path for _, path in sorted(found)]

    def delete(self, contender: str) -> None:
        self._ask(ZK_DELETE, _text(contender.encode()) + struct.pack("!i", -1))


class Sql:
    """One server of a database, asked with its own shell."""

    words: tuple[str, ...] = ()
    port: int
    held = ""
    """The statement that lists contenders of {lock}, the holder first, a row for each."""
    end = ""
    """The statement that takes the lock from a {contender}, as the server may do by itself."""
    states: tuple[str, ...] = tuple(state for state in CALLS if state != "expired")
    # A session without a heartbeat is over when the server is told so, as in the state "gone".

    lease_ns = LEASE_NS

    def __init__(self, server: str, options: Mapping[str, str]) -> None:
        self._words = [word.format(server=server, port=self.port) for word in self.words]

    def _ask(self, query: str) -> list[str]:
        done = subprocess.run([*self._words, query], capture_output=True, text=True)
        if done.returncode:
            raise ConnectionError(done.stderr)
        return done.stdout.splitlines()

    def contenders(self, lock: str) -> list[str]:
        """Whoever holds or wants a lock; where they are sessions each lock has the server for
        itself."""
        return self._ask(self.held.format(lock=lock))

    def delete(self, contender: str) -> None:
        """As the server does by itself; waits until it is done."""
        self._ask(self.end.format(contender=contender))
        deadline = time.monotonic() + SETTLED_S
        while contender in self.contenders(contender.partition(" ")[0]):
            assert time.monotonic() < deadline, f"{contender} is still there"
            time.sleep(0.05)


class Postgres(Sql):
    """PostgreSQL's advisory locks: the sessions that have or want one."""

    port = postgres.PORT
    words = (
        "psql", "-h", "{server}", "-p", "{port}", "-U", postgres.USER, "-d", postgres.DATABASE,
        "-Atc",
    )  # fmt: skip
    held = "select pid from pg_locks where locktype = 'advisory' order by granted desc, pid"
    end = "select pg_terminate_backend({contender}, 5000)"


class PostgresRow(Postgres):
    """Its row locks: the transactions that have selected for update, those that wait last."""

    held = (
        "select pid from pg_locks mine where locktype = 'relation' and mode = 'RowShareLock'"
        " and relation = 'locks'::regclass order by exists (select from pg_locks other"
        " where other.pid = mine.pid and not other.granted), pid"
    )


LEASES = "select concat(name, ' ', owner) from leases where name = '{lock}' and owner <> ''"
END_LEASE = "delete from leases where concat(name, ' ', owner) = '{contender}'"


class PostgresLease(Postgres):
    """A row with a time: who is its owner until then."""

    held = f"{LEASES} and until_us > extract(epoch from clock_timestamp()) * 1000000"
    end = END_LEASE
    states = CALLS


class MariaDb(Sql):
    """MariaDB's row locks: the transactions that have locked a row, those that wait last."""

    port = mariadb.PORT
    words = (
        "mariadb", "-h", "{server}", "-P", "{port}", "-u", mariadb.USER, "-D", mariadb.DATABASE,
        "-NBe",
    )  # fmt: skip
    held = (
        "select trx_mysql_thread_id from information_schema.innodb_trx"
        " where trx_rows_locked > 0 order by trx_state = 'LOCK WAIT', trx_started"
    )
    end = "kill {contender}"

    def contenders(self, lock: str) -> list[str]:
        time.sleep(INNODB_CACHE_S)
        return super().contenders(lock)


class MariaDbUser(Sql):
    """Its user locks: the session that has the name. Who waits is not listed."""

    port, words, end = MariaDb.port, MariaDb.words, MariaDb.end
    held = "select id from information_schema.processlist where id = is_used_lock('{lock}')"

    def delete(self, contender: str) -> None:
        with suppress(ConnectionError):
            self._ask(self.end.format(contender=contender))


class MariaDbLease(Sql):
    """A row with a time: who is its owner until then."""

    port, words, end, states = MariaDb.port, MariaDb.words, END_LEASE, CALLS
    held = f"{LEASES} and until_us > cast(unix_timestamp(sysdate(6)) * 1000000 as signed)"


class Memcached:
    """One memcached server: a key, as its text protocol has it."""

    port, states = 11211, CALLS

    lease_ns = LEASE_NS

    def __init__(self, server: str, options: Mapping[str, str]) -> None:
        self._link = socket.create_connection((server, self.port), timeout=10)
        self._lines = self._link.makefile("rb")

    def contenders(self, lock: str) -> list[str]:
        self._link.sendall(f"get {lock}\r\n".encode())
        found = []
        while not self._lines.readline().startswith(b"END"):
            found.append(f"{lock} {self._lines.readline().decode().strip()}")
        return found

    def delete(self, contender: str) -> None:
        self._link.sendall(f"delete {contender.split()[0]}\r\n".encode())
        self._lines.readline()


class Redis:
    """One Redis server: the keys of a lock, each with its value or the members of its set."""

    port, states = 6379, CALLS

    lease_ns = LEASE_NS

    def __init__(self, server: str, options: Mapping[str, str]) -> None:
        self._link = socket.create_connection((server, self.port), timeout=10)
        self._lines = self._link.makefile("rb")

    def _ask(self, *words: str) -> Any:
        sent = [f"*{len(words)}\r\n", *(f"${len(word)}\r\n{word}\r\n" for word in words)]
        self._link.sendall("".join(sent).encode())
        return self._reply()

    def _reply(self) -> Any:
        line = self._lines.readline().decode().strip()
        kind, rest = line[:1], line[1:]
        if kind == "$":
            return None if rest == "-1" else self._lines.read(int(rest) + 2)[:-2].decode()
        return [self._reply() for _ in range(int(rest))] if kind == "*" else rest

    def contenders(self, lock: str) -> list[str]:
        found = []
        for key in sorted(self._ask("KEYS", "*")):
            if lock not in key.split(":"):
                continue
            of_set = self._ask("TYPE", key) == "zset"
            values = self._ask("ZRANGE", key, "0", "-1") if of_set else [self._ask("GET", key)]
            found += [f"{key} {value}" for value in values]
        return found

    def delete(self, contender: str) -> None:
        self._ask("DEL", contender.split()[0])


def _text(data: bytes) -> bytes:
    return struct.pack("!i", len(data)) + data


def _deletes(packet: bytes) -> bool:
    return len(packet) >= 12 and struct.unpack("!i", packet[8:12])[0] == ZK_DELETE


class GivenRow(PostgresRow):
    """PostgreSQL in the place of CockroachDB, which no package index has: same words, same table.

    The table is the client's own, so that there is nothing to ask before its first request.
    """

    def contenders(self, lock: str) -> list[str]:
        known = self._ask("select count(*) from pg_tables where tablename = 'locks'") == ["1"]
        return super().contenders(lock) if known else []


Probe = Etcd | ZooKeeper | Sql | Memcached | Redis | store_probes.Http | store_probes.Nats
SERVICES: Mapping[str, type[Probe]] = {
    "etcd": Etcd,
    "zookeeper": ZooKeeper,
    "postgres-advisory": Postgres,
    "postgres-row": PostgresRow,
    "postgres-lease": PostgresLease,
    "mariadb-row": MariaDb,
    "mariadb-get-lock": MariaDbUser,
    "mariadb-lease": MariaDbLease,
    "memcached": Memcached,
    "redis": Redis,
    "redlock": Redis,
    "dynamodb": store_probes.DynamoDb,
    "s3": store_probes.S3,
    "gcs": store_probes.Gcs,
    "azure-blob": store_probes.Azure,
    "kubernetes": store_probes.Kubernetes,
    "nats-kv": store_probes.Nats,
    "cockroachdb": GivenRow,
    "galera-lease": MariaDbLease,
    "galera-get-lock": MariaDbUser,
}


def states_of(service: str, options: Mapping[str, str]) -> tuple[str, ...]:
    """What a lock's state can be before a renewal or release."""
    probe: Any = SERVICES[service]
    timed = options.get("leases") == "timed"
    states: tuple[str, ...] = getattr(probe, "timed_states" if timed else "states")
    return (*states, *WRITES) if hasattr(probe, "writes") else states


class Trial:
    """Two clients of one library, and the server that both use."""

    def __init__(self, service: str, make: str, pair: str, options: Mapping[str, str]) -> None:
        near, far = pair.split("=")
        self.server: Any = SERVICES[service](far, options)
        self.lease_ns: int = self.server.lease_ns
        self.states = states_of(service, options)
        self.writes = WRITES if hasattr(self.server, "writes") else ()
        self.first_ns: int = getattr(self.server, "first_ns", 0)
        self.proxy = Proxy(near, far, self.server.port)
        self.deletes = _deletes if service == "zookeeper" else None
        self.clients = [
            load(make)(
                ClientSetup(
                    process=n, name=f"c{n}", servers=[("n1", address)],
                    lease_ns=self.lease_ns, tell=lambda op, **rest: None,
                    options={key: text.replace(AT, address) for key, text in options.items()},
                )
            )
            for n, address in ((1, near), (2, far))
        ]  # fmt: skip
        self.threads = [ThreadPoolExecutor(1) for _ in self.clients]
        self.attempts = 0
        self.calling: asyncio.Future[Any] | None = None

    async def do(
        self, who: int, call: str, *args: Any, within_s: float = HUNG_S, **named: Any
    ) -> Any:
        """The answer to a call; INFO if the library hangs, which ends when the state is healed."""
        client = self.clients[who]
        if getattr(client, "blocking", False):
            work = partial(getattr(client, call), *args, **named)
            self.calling = asyncio.get_running_loop().run_in_executor(self.threads[who], work)
        else:
            self.calling = asyncio.ensure_future(getattr(client, call)(*args, **named))
        await asyncio.wait([self.calling], timeout=within_s)
        if not self.calling.done():
            return Answer(outcome=Status.INFO, error=f"no answer within {within_s} s")
        return self.calling.result()

    async def acquire(self, who: int, lock: str, wait_ns: int = 0) -> tuple[Any, Grant]:
        self.attempts += 1
        self.server.attempts = self.attempts
        asked = {"ttl_ns": self.lease_ns, "wait_ns": wait_ns, "mode": Mode.EXCLUSIVE}
        within_s = max(HUNG_S, 2 * wait_ns / SECOND)
        said = await self.do(
            who, "acquire", lock, attempt=self.attempts, within_s=within_s, **asked
        )
        token = getattr(said, "token", NO_TOKEN)
        grant = Grant(
            lock=lock, attempt=self.attempts, token=token, ttl_ns=self.lease_ns, granted_at_ns=0
        )
        return said, grant

    async def run(self) -> None:
        """Every call in every state, each on a lock of its own."""
        for client in range(2):
            if hasattr(self.clients[client], "open"):
                await self.do(client, "open")
        for call, wait_ns in (("try", 0), ("acquire", WAIT_NS)):
            for state in (*ACQUIRES, *self.writes):
                await self.meet_acquire(call, state, wait_ns)
        for call in ("renew", "release"):
            for state in self.states:
                if state != "expired":
                    await self.meet(call, state)
        if "expired" in self.states:
            await self.meet_expired()

    async def until(self, met: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SETTLED_S
        while not met():
            assert time.monotonic() < deadline, what
            await asyncio.sleep(0.05)

    def lose(self, what: str, only: Callable[[bytes], bool] | None = None) -> None:
        self.proxy.only = only or every
        self.proxy.loses = what

    def lose_in(self, state: str, only: Callable[[bytes], bool] | None = None) -> None:
        """What is lost in a state: the request, or its reply; "write": not those that read."""
        only = self.server.writes if state.startswith("write") else only
        if state.endswith("cut"):
            self.lose("request", only)
        elif state.endswith("reply-lost"):
            self.lose("reply", only)

    async def meet_acquire(self, call: str, state: str, wait_ns: int) -> None:
        lock = f"{call}-{state.replace(', ', '-')}"
        if state.startswith("undone") and self.deletes is None:
            return
        await self.connected()
        if state.startswith(("theirs", "undone")):
            await self.taken(lock)
        before = self.server.contenders(lock)
        self.lose_in(state, self.deletes if state == "undone, cut" else None)
        said, _ = await self.acquire(0, lock, wait_ns)
        await self.tell(call, state, said, lock, before, "")

    async def connected(self) -> None:
        """Its connection is whole: the state before may have ended it."""
        lock, grant = await self.held("before")
        await self.do(0, "release", grant)
        for contender in self.server.contenders(lock):
            self.server.delete(contender)

    async def held(self, name: str) -> tuple[str, Grant]:
        """A lock that the client holds; it may take a while to connect after the state before."""
        deadline = time.monotonic() + SETTLED_S
        for tries in itertools.count():
            lock = f"{name}-{self.attempts}"
            said, grant = await self.acquire(0, lock, self.first_ns + tries * SECOND)
            if said.outcome is Status.OK:
                return lock, grant
            assert time.monotonic() < deadline, (name, said)
        raise AssertionError(name)

    async def taken(self, lock: str) -> None:
        """The other client holds a lock; its last session may have been ended.

        On a busy machine an election can take longer than a try, so it waits a second longer each
        time; and a library that renews by itself may have made the lock's entry again before the
        other one came.
        """
        deadline = time.monotonic() + SETTLED_S
        for tries in itertools.count():
            for contender in self.server.contenders(lock) if tries else ():
                self.server.delete(contender)
            said, _ = await self.acquire(1, lock, self.first_ns + tries * SECOND)
            if said.outcome is Status.OK:
                return
            assert time.monotonic() < deadline, (lock, said)

    async def meet(self, call: str, state: str) -> None:
        """A renewal or release of a holder, whose lock is brought into the state before."""
        lock, grant = await self.held(f"{call}-{state}")
        ours = self.server.contenders(lock)[0]
        if state in ("gone", "theirs"):
            self.server.delete(ours)
        if state == "theirs":
            await self.taken(lock)
        elif state == "overtaken":
            # A library may renew by itself: its owner is cut off meanwhile.
            self.lose("request")
            said, _ = await self.acquire(1, lock, 3 * self.lease_ns)
            self.proxy.loses = ""
            if said.outcome is not Status.OK:
                return  # No taking over: that of a library may wait for an hour.
        elif state == "released":
            await self.do(0, "release", grant)
        await self.call(call, state, lock, grant, ours)

    async def meet_expired(self) -> None:
        """Both calls of holders whose leases ran out, in one and the same time."""
        calls = ("renew", "release")
        held = [await self.held(f"{call}-expired") for call in calls]
        ours = [self.server.contenders(lock)[0] for lock, _ in held]
        self.lose("request")
        for lock, _ in held:
            await self.until(partial(self.free, lock), "it expires")
        self.proxy.loses = ""
        for call, (lock, grant), mine in zip(calls, held, ours, strict=True):
            await self.call(call, "expired", lock, grant, mine)

    def free(self, lock: str) -> bool:
        return not self.server.contenders(lock)

    async def call(self, call: str, state: str, lock: str, grant: Grant, ours: str) -> None:
        """The renewal or release itself, and what the server has before and after."""
        before = self.server.contenders(lock)
        self.lose_in(state)
        words = {"ttl_ns": self.lease_ns} if call == "renew" else {}
        try:
            said = await self.do(0, call, grant, **words)
        except KeyError:
            return  # The client keeps no lock object of an attempt that it has released.
        await self.tell(call, state, said, lock, before, ours)

    async def tell(
        self, call: str, state: str, said: Any, lock: str, before: Sequence[str], ours: str
    ) -> None:
        row = {
            "call": call, "state": state, "outcome": said.outcome.name, "error": said.error,
            "ours": ours, "before": before, "after": self.server.contenders(lock),
        }  # fmt: skip
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
        self.proxy.loses = ""
        assert self.calling is not None
        await asyncio.wait([self.calling], timeout=SETTLED_S)
        for contender in self.server.contenders(lock):
            self.server.delete(contender)


async def main(argv: Sequence[str]) -> None:
    await Trial(argv[1], argv[2], argv[3], json.loads(argv[4])).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv))
    sys.stdout.flush()
    os._exit(0)  # Not by way of threads and sockets that libraries leave.
