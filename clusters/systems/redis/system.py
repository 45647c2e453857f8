"""Driver side of Redis on one node: server command and promises.

Promises: exclusion while the server is up and its clock is correct; only the owner can release
Does not promise: exclusion after a restart or a clock step, fencing tokens, loss notification
Tested with: Debian's redis-server 7.0 and redis-py 8.1.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.clusters.systems.operations import KeepsFiles
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.presets import LEASE
from holdfast.clusters.systems.redis import PORT, record
from holdfast.clusters.systems.redis.server import (
    CONFIG_FILE,
    PERSISTENCE,
    advance,
    counters,
    flush,
    missing,
    redis_server,
    said,
)
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import CRASHES, CUTS, LOSES_UNSYNCED, STOPS
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises
from holdfast.harness.recording.server_record import RecordTask

OPTIONS = {
    "client": ("redis-py", "own"),
    "persistence": tuple(PERSISTENCE),
    "tokens": ("none", "counter"),
    "variant": ("published", "fixed-value", "get-then-del", "plain-del", "setnx-expire"),
}
MISTAKES = {
    "fixed-value": "all owners share one value: a late release frees the next owner's lock",
    "get-then-del": "compare and DEL are separate: the DEL can free the next owner's lock",
    "plain-del": "DEL without a comparison: a late release frees the next owner's lock",
    "setnx-expire": "SETNX and PEXPIRE are separate: a crash in between leaves the lock forever",
}


LIBRARIES = ("redis==8.1.0", "async-timeout==5.0.1")


class Redis(KeepsFiles):
    """One server; clients poll it. `tokens=counter` takes a number from a counter key."""

    client = "holdfast.clusters.systems.redis.client:client"
    libraries: Sequence[str] = LIBRARIES
    ports: Sequence[int] = (PORT,)

    def promises(self, options: Mapping[str, str]) -> Promises:
        chosen = _chosen(options)
        variant = chosen["variant"]
        asks_whose = variant in ("published", "get-then-del", "setnx-expire")
        durable = chosen["persistence"] == "always"
        while_it_lives = (CUTS, STOPS, *((CRASHES, LOSES_UNSYNCED) if durable else ()))
        frees = () if variant == "setnx-expire" else (CUTS, STOPS, CRASHES)
        if variant not in ("published", "setnx-expire"):
            while_it_lives = ()
        tokens = chosen["tokens"] == "counter"
        keeps = {
            "mutual-exclusion": while_it_lives,
            "ownership": while_it_lives,
            "deadlock-freedom": frees,
            "orphan-freedom": frees,
            "no-hung-request": ("any",),
        }
        if durable and variant == "published":
            keeps["durable-grants"] = (CUTS, STOPS, CRASHES, LOSES_UNSYNCED)
        if tokens:
            keeps["token-order"] = while_it_lives
            keeps["no-stale-write"] = while_it_lives
        return replace(
            LEASE,
            purpose="efficiency",
            renew_proves=variant != "fixed-value",
            release_proves=asks_whose,
            release_once=asks_whose,
            slip_ns=5 * MILLISECOND,
            tokens="ordered" if tokens else "none",
            tokens_unique=tokens,
            recovery_ns=5 * SECOND,
            keeps=keeps,
            sheet={
                "owner identity": "a value unique to the attempt",
                "acquisition": "SET key value NX PX lease, polled every 2 to 12 ms",
                "lease": "the key's time to live, on the server's wall clock",
                "renewal": "compare-and-PEXPIRE in a script",
                "token enforcement": "INCR of a counter key in the same script"
                if tokens
                else "none: a plain Redis lock has no token",
                "timeout": "1 s per command; a command without a response is unknown",
                "retry": "none in the library (disabled); the adapter polls",
                "consequence": MISTAKES.get(
                    variant, "a restart without fsynced writes loses the lock"
                ),
                "clock assumptions": "the server's wall clock does not step",
                "evidence": f"persistence: {chosen['persistence']}",
            },
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The same on every node; clients use the first."""
        chosen = _chosen(options)
        return redis_server(node, place, chosen["persistence"], options)

    def config_problems(self, options: Mapping[str, str]) -> Sequence[str]:
        """As `Configurable`: a redis.conf."""
        return CONFIG_FILE.problems(options)

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        return missing()

    async def flush(self, server: Node, options: Mapping[str, str]) -> None:
        """SAVE, where no log has every write: the backup is what an operator would take."""
        await flush(server, _chosen(options)["persistence"])

    async def advance(self, servers: Sequence[Node], by: int) -> None:
        """INCRBY of every token counter."""
        await advance(servers[0], by)

    async def position(self, server: Node, options: Mapping[str, str]) -> int | None:
        """The sum of all token counters; None without `tokens=counter`."""
        counts = _chosen(options)["tokens"] == "counter"
        return await counters(server) if counts else None

    def unrecorded(self, options: Mapping[str, str]) -> str | None:
        """As `KeepsRecord`: where the value of a key does not name its owner, or SET is not all."""
        variant = _chosen(options)["variant"]
        if variant in ("fixed-value", "setnx-expire"):
            return f"with variant={variant} the commands do not show who holds the lock"
        return None

    async def follow(self, task: RecordTask) -> None:
        """As `KeepsRecord`: the commands of MONITOR on the server that clients use."""
        await record.follow(task)

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the server responds to PING."""
        return await said(node.address, PORT, "PING") == ["PONG"]

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The one server that clients use."""
        return Leader(servers[0].name)


def _chosen(options: Mapping[str, str]) -> dict[str, str]:
    chosen = choose("redis", options, OPTIONS)
    if chosen["tokens"] == "counter" and chosen["variant"] != "published":
        raise UsageError("redis: tokens=counter requires variant=published")
    if chosen["client"] == "own" and chosen["variant"] != "published":
        raise UsageError("redis: client=own requires variant=published")
    return chosen


SYSTEM = Redis()
