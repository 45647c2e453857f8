"""Driver side of memcached locks: one server, keys with a time to live.

Promises: exclusion while the server runs and is not paused; a dead owner's key expires
Does not promise: exclusion after a restart (nothing is stored), after a pause of the server, or
    when items are evicted; fencing tokens, loss notification
Tested with: Debian's memcached 1.6.18
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.clusters.systems.memcached import MARGIN_S, PORT
from holdfast.clusters.systems.operations import InMemory
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.presets import LEASE
from holdfast.clusters.systems.response import response
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.fault_traits import CRASHES, CUTS, SKEWS, STOPS
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

BINARY = "memcached"
OPTIONS = {"release": ("cas", "delete"), "margin": tuple(MARGIN_S)}
"""Whether a release compares; by how much a lease is longer than the owner relies on."""
KEPT = (CUTS, SKEWS)
REACHED = (CUTS, STOPS, CRASHES, SKEWS)
READY_WITHIN_S = 0.5


class MemcachedSystem(InMemory):
    """A System over one server; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.memcached.client:client"
    libraries: Sequence[str] = ()
    ports: Sequence[int] = (PORT,)

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Raises UsageError."""
        chosen = choose("memcached", options, OPTIONS)
        compares, spare = chosen["release"] == "cas", MARGIN_S[chosen["margin"]]
        keeps: dict[str, tuple[str, ...]] = {
            "deadlock-freedom": REACHED,
            "orphan-freedom": REACHED,
            "no-hung-request": ("any",),
        }
        if compares and chosen["margin"] == "2s":
            keeps |= {"mutual-exclusion": KEPT, "ownership": KEPT}
        return replace(
            LEASE,
            purpose="efficiency",
            release_proves=compares,
            release_once=compares,
            slip_ns=spare * SECOND + 5 * MILLISECOND,
            recovery_ns=5 * SECOND,
            keeps=keeps,
            sheet={
                "owner identity": "a value unique to the attempt",
                "acquisition": "add KEY VALUE TTL, polled every 5 to 20 ms",
                "lease": "whole seconds, rounded up; the server's clock has whole seconds and may"
                " advance by two at once, so that a key may expire 2 s early; requested beyond what"
                f" the owner relies on: {spare} s",
                "renewal": "gets and cas of the same value",
                "token enforcement": "none: the numbers of cas restart with the server",
                "timeout": "1 s per command; a write without a response is unknown",
                "retry": "none; the client polls",
                "consequence": "a restart, or eviction when memory is full, loses the lock"
                + ("" if compares else "; a late release frees the next owner's lock"),
                "clock assumptions": "the server reads its monotonic clock about once per second,"
                " and is not paused in between",
                "evidence": "one server, 64 MB, nothing stored on disk",
            },
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The same on every node; clients use the first."""
        # As root it wants the name of a user; another one may not exist in a user namespace.
        argv = (BINARY, "-l", node.address, "-p", str(PORT), "-U", "0", "-u", "root")
        return Command(argv=argv, log=place.run_dir / "logs" / node.name / "memcached.log")

    def precheck(self) -> str | None:
        """Why this machine cannot start it outside a container; None if it can."""
        if shutil.which(BINARY) is None:
            return f"{BINARY} is not installed; install {BINARY}, or use --backend docker"
        return None

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the server responds with its version."""
        question = b"version\r\nquit\r\n"
        reply = await response(node.address, PORT, question, READY_WITHIN_S)
        return reply.startswith(b"VERSION ")

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The one server that clients use."""
        return Leader(servers[0].name)


SYSTEM = MemcachedSystem()
