"""Driver side of ZooKeeper: server command, leader, promises of kazoo's lock.

Promises: exclusion while the session lives, ordered tokens, ownership, notification of a lost
    session and progress under any fault that leaves, or restores, a majority; with a resource that
    checks tokens, no stale write.
Does not promise: that a holder that is paused or cut off past its session does not write: kazoo's
    `is_acquired` stays true until the lock is released; that a release returns while the connection
    is down, because kazoo retries without a bound.
Tested with: Debian's ZooKeeper 3.8.0, 3 servers, and kazoo 2.11.0; partitions, pauses, crashes.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.clusters.systems.config_files import (
    ADDRESS,
    CREDENTIALS,
    FOLDER,
    ConfigFile,
    by_equals,
    chosen_by,
)
from holdfast.clusters.systems.operations import KeepsFiles
from holdfast.clusters.systems.options import choose, refuse_loopback
from holdfast.clusters.systems.presets import LEASE_WITH_TOKENS
from holdfast.clusters.systems.response import response
from holdfast.clusters.systems.zookeeper import (
    ELECTION_PORT,
    FOLLOW_PORT,
    LONGEST_MS,
    PORT,
    record,
)
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.fault_traits import CUTS, SKEWS, STOPS
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises
from holdfast.harness.recording.server_record import RecordTask

OPTIONS = {
    "lock": ("kazoo",),
    "token": ("czxid", "sequence"),
    "suspended": ("ignored", "told"),
    "refused": ("checked", "trusted"),
    "tick": ("500", "2000"),
    "sync": ("yes", "no"),
}
"""The library; the source of the token; whether a lost connection already counts as a loss;
whether the node of a request that was not granted, as the library says, is looked for in the queue;
the server's tick in ms (minimum session: 2 ticks); whether every write is synced."""
JARS = ("/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar")
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
STATUS_S = 0.5
KEPT = (
    "mutual-exclusion",
    "durable-grants",
    "no-stale-write",
    "no-lost-update",
    "exactly-once-job",
    "token-order",
    "ownership",
    "loss-notice",
    "deadlock-freedom",
    "orphan-freedom",
)


class ZooKeeper(KeepsFiles):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.zookeeper.client:client"
    libraries: Sequence[str] = ("kazoo==2.11.0",)
    ports: Sequence[int] = (PORT, FOLLOW_PORT, ELECTION_PORT)
    no_members = "its members are fixed in its configuration file (no dynamic reconfiguration)"
    no_failover = "its servers elect their leader by themselves; it has no command for that"

    def promises(self, options: Mapping[str, str]) -> Promises:
        """What the recipe promises for a lock in a session. Raises UsageError."""
        chosen = choose("zookeeper", options, OPTIONS)
        durable = ("any",) if chosen["sync"] == "yes" else (CUTS, STOPS, SKEWS)
        return replace(
            LEASE_WITH_TOKENS,
            bound="session",
            session_ns=2 * int(chosen["tick"]) * MILLISECOND,
            order="fifo",
            notice_ns=3 * SECOND,
            recovery_ns=12 * SECOND,
            keeps={**dict.fromkeys(KEPT, durable), "no-hung-request": (SKEWS,)},
            sheet=_sheet(chosen),
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """One server; its data is data/<node> in the run's folder."""
        chosen = choose("zookeeper", options, OPTIONS)
        refuse_loopback("zookeeper", node, servers)
        data = place.run_dir / "data" / node.name
        data.mkdir(parents=True, exist_ok=True)
        names = [server.name for server in servers]
        (data / "myid").write_text(f"{names.index(node.name) + 1}\n")
        config = data / "zoo.cfg"
        config.write_text(_config(node, servers, data, int(chosen["tick"]), options))
        argv = (
            "java",
            *JVM,
            "-Dzookeeper.admin.enableServer=false",
            f"-Dzookeeper.forceSync={chosen['sync']}",
            "-cp", ":".join(JARS),
            MAIN,
            str(config),
        )  # fmt: skip
        return Command(argv=argv, log=place.run_dir / "logs" / node.name / "zookeeper.log")

    def config_problems(self, options: Mapping[str, str]) -> Sequence[str]:
        """As `Configurable`: a zoo.cfg."""
        return CONFIG_FILE.problems(options)

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        missing = [jar for jar in JARS if not Path(jar).exists()]
        if shutil.which("java") is None:
            missing.insert(0, "java")
        if missing:
            return f"no {', '.join(missing)}; install zookeeper, or use --backend docker"
        return None

    def unrecorded(self, options: Mapping[str, str]) -> str | None:
        """As `KeepsRecord`: every contender's node names its attempt."""
        return None

    async def follow(self, task: RecordTask) -> None:
        """As `KeepsRecord`: the transaction logs of all servers."""
        await record.follow(task)

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the server serves: standalone, as a follower, or as the leader."""
        return await mode(node.address) in ("standalone", "follower", "leader")

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The server that reports to lead; None without one. Of two, the first that reports so."""
        asked = await asyncio.gather(*(said(server.address) for server in servers))
        for server, report in zip(servers, asked, strict=True):
            if report.get("Mode") in ("leader", "standalone"):
                # The upper half of a transaction's number is the epoch of the leader that made it.
                return Leader(server.name, int(report.get("Zxid", "0"), 16) >> 32)
        return None


async def mode(address: str) -> str:
    """A server's reported mode; empty if it does not serve."""
    return (await said(address)).get("Mode", "")


async def said(address: str) -> dict[str, str]:
    """A server's own report, value by name; empty if it does not respond."""
    text = (await response(address, PORT, b"srvr", STATUS_S)).decode(errors="replace")
    pairs = (line.partition(": ") for line in text.splitlines())
    return {name: value.strip() for name, colon, value in pairs if colon}


CONFIG_FILE = ConfigFile(
    lines=by_equals,
    owned={
        "datadir": FOLDER, "datalogdir": FOLDER,
        "clientport*": ADDRESS, "secureclientport*": ADDRESS,
        "server.*": ADDRESS, "dynamicconfigfile": ADDRESS, "standaloneenabled": ADDRESS,
        "reconfigenabled": ADDRESS, "ssl*": ADDRESS, "admin.*": ADDRESS,
        "ticktime": chosen_by("tick"), "forcesync": chosen_by("sync"),
        "minsessiontimeout": chosen_by("tick"),
        "maxsessiontimeout": "clients ask for sessions of --lease",
        "4lw.commands.whitelist": "Holdfast asks the servers whether they serve with srvr",
        "*auth*": CREDENTIALS,
    },
)  # fmt: skip


def _config(
    node: Node, servers: Sequence[Node], data: Path, tick_ms: int, options: Mapping[str, str]
) -> str:
    """The server's file: a follower without messages for two seconds looks for a leader. What the
    user's own file says replaces the rest."""
    table = {
        "tickTime": tick_ms,
        "initLimit": max(5, 10_000 // tick_ms),
        "syncLimit": max(2, 2000 // tick_ms),
        "minSessionTimeout": 2 * tick_ms,
        "maxSessionTimeout": LONGEST_MS,
        "maxClientCnxns": 0,
        "dataDir": data,
        "clientPort": PORT,
        "clientPortAddress": node.address,
        "4lw.commands.whitelist": "srvr",
    }
    if len(servers) > 1:
        for n, server in enumerate(servers, 1):
            table[f"server.{n}"] = f"{server.address}:{FOLLOW_PORT}:{ELECTION_PORT}"
    own = CONFIG_FILE.values(options)
    return "".join(f"{name}={value}\n" for name, value in (table | own).items())


def _sheet(chosen: Mapping[str, str]) -> dict[str, str]:
    early = chosen["suspended"] == "told"
    return {
        "owner identity": "an ephemeral node of the attempt, in the session of its client",
        "acquisition": "kazoo's Lock: an ephemeral sequential node; a waiter watches"
        " its predecessor",
        "lease": "the session timeout, measured by the leader; a new leader restarts it",
        "renewal": "heartbeats in a thread of the library; a renewal by Holdfast writes to the"
        " attempt's node, which proves that the node still exists",
        "token enforcement": "the zxid that created the node"
        if chosen["token"] == "czxid"
        else "the sequence number in the node's name",
        "timeout": "1 s or a third of the lease for a renewal; the library's acquire and release"
        " wait for the connection to come back",
        "retry": "kazoo's own, with at most 1 s between two connects",
        "consequence": "a holder whose session expired holds nothing; it is notified on reconnect"
        + (", or as soon as its connection breaks" if early else ""),
        "clock assumptions": "monotonic clock rates of leader and client differ by less than 0.1%;"
        " wall clocks are not used",
        "evidence": f"tick {chosen['tick']} ms; writes synced: {chosen['sync']}",
    }


SYSTEM = ZooKeeper()
