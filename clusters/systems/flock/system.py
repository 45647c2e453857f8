"""Driver side of locks by files: no server; the kernel of one host, or the file itself.

Promises: with `via=flock` and `via=fcntl` exclusion and ownership under every fault, and that a
    lock is free once its owner's process is gone
Does not promise: after a fork, that the lock ends with its owner, whose descriptor the child has;
    with `inspect=yes` and `via=fcntl` anything; with `via=excl` exclusion under faults
Tested with: Linux 6 on a local file system; no network file system was available
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.presets import LEASE, kept
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import CRASHES, CUTS, SKEWS, STOPS
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

OPTIONS = {"via": ("flock", "fcntl", "excl"), "inspect": ("no", "yes")}
"""The system call; whether an owner reads the file through another descriptor after the grant."""
FREED_BY = (CUTS, STOPS, CRASHES, SKEWS)
ACQUISITION = {
    "flock": "flock(2) on a descriptor per attempt",
    "fcntl": "an fcntl record lock on the whole file, and a table of the process's own attempts",
    "excl": "O_CREAT|O_EXCL; a file whose process is gone, or which is older than its lease, is"
    " removed first",
}
CONSEQUENCE = {
    "flock": "a forked child keeps the lock of a dead owner",
    "fcntl": "closing any descriptor of the file ends the lock",
    "excl": "of two clients that see a stale file the second removes the new file of the first",
}


class FileLocks:
    """A System without servers; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.flock.client:client"
    libraries: Sequence[str] = ()
    ports: Sequence[int] = ()
    backends: Sequence[str] = ("local", "local-proxy")
    confined_because = (
        "needs clients that share a file system and process ids, as those of one host do"
    )

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Raises UsageError."""
        chosen = choose("flock", options, OPTIONS)
        via, inspected = chosen["via"], chosen["inspect"] == "yes"
        if inspected and via == "excl":
            raise UsageError("flock: inspect=yes requires via=flock or via=fcntl")
        leases, spoilt = via == "excl", inspected and via == "fcntl"
        keeps = kept(() if leases else ("any",), FREED_BY)
        if spoilt:
            keeps = {"no-hung-request": ("any",)}
        return replace(
            LEASE,
            purpose="efficiency" if leases or spoilt else "correctness",
            bound="lease" if leases else "none" if spoilt else "connection",
            renew_proves=not (leases or inspected),
            release_proves=not (leases or inspected),
            release_once=not (leases or inspected),
            slip_ns=5 * MILLISECOND,
            recovery_ns=5 * SECOND,
            keeps=keeps,
            sheet={
                "owner identity": "the file's content: process and attempt"
                if leases
                else "the open descriptor (flock), or the process (fcntl)",
                "acquisition": f"{ACQUISITION[via]}; polled every 2 to 12 ms",
                "lease": "from the file's time of change, on the client's wall clock"
                if leases
                else "none: the kernel ends a lock with its process",
                "renewal": "touches the file" if leases else "a look into /proc/self/fdinfo",
                "token enforcement": "none: a file lock has no token",
                "timeout": "none: a call to the kernel does not wait",
                "retry": "none; the client polls",
                "consequence": CONSEQUENCE[via],
                "clock assumptions": "the wall clocks of clients agree" if leases else "none",
                "evidence": "the kernel of one host; a folder of the run on its file system",
            },
        )

    def abilities(self, options: Mapping[str, str]) -> Sequence[str]:
        """Readers beside each other: the kernel's locks, not the file that exists."""
        return ("shared",) if options.get("via") != "excl" else ()

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """Raises UsageError: there is nothing to start."""
        raise UsageError("flock: no server to start; expected --nodes 0")

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Always: the kernel runs."""
        return True

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """None: there are no servers."""
        return None


SYSTEM = FileLocks()
