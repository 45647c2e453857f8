"""Driver side of the single lease server: promises that do not survive its restart.

Clients use only the first node, whatever the number of nodes. The others run the same server, idle,
so that a fault can target a bystander; `leader` is always the first.

With `--set leases=none` a hold ends only by its release, so a holder that dies deadlocks its lock.
With `--set poll_ms=1000` a waiting client polls every 200 to 1000 ms instead of every 20 to 100 ms:
less load, and a longer time until a free lock is granted.

Promises: the promises of the reference service, while its one process lives.
Does not promise: exclusion or ordered tokens across a restart, which loses every hold;
without leases, that a lock is ever granted again.
Tested with: partitions, pauses, crashes and wall clock faults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.clusters.systems.operations import OWN_RELEASE, InMemory
from holdfast.clusters.systems.presets import LEASE_WITH_TOKENS
from holdfast.clusters.systems.reference.options import TRACED
from holdfast.clusters.systems.reference.system import known_options, server_command, status
from holdfast.clusters.systems.reference.wire.frames import DEFAULT_PORT
from holdfast.clusters.systems.single.client import POLL_S, poll_s
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import CUTS, SKEWS, STOPS
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

ALIVE = (CUTS, STOPS, SKEWS)
"""Faults under which the server keeps its memory."""

KEEPS: dict[str, tuple[str, ...]] = {
    "mutual-exclusion": ALIVE,
    "no-stale-write": ALIVE,
    "no-lost-update": ALIVE,
    "exactly-once-job": ALIVE,
    "token-order": ALIVE,
    "no-false-rejection": ALIVE,
    "ownership": ("any",),
    "loss-notice": ("any",),
    "deadlock-freedom": ("any",),
    "orphan-freedom": ("any",),
    "no-hung-request": ("any",),
}

BY_LEASE = ("deadlock-freedom", "orphan-freedom", "loss-notice")
"""Properties that depend on leases: without them a dead holder's lock is held forever."""
WITHOUT_LEASES = {
    "lease": "none: a hold ends by its release",
    "consequence": "a single point of failure; a holder that dies shuts all others out until an"
    " operator acts",
}

SHEET = {
    "owner identity": "one attempt: a number that no two acquires share",
    "acquisition": "an entry in an in-memory table of one process",
    "queue": "none; clients poll with jitter",
    "lease": "measured by the server from the grant",
    "renewal": "restarts the lease, while the attempt still holds",
    "token enforcement": "the protected resource rejects a token smaller than the highest it has"
    " seen; after a restart of the server tokens begin at 1 again",
    "timeout": "the client's own; an acquire without a last response is released",
    "retry": "the server recognizes a retried attempt and returns the same response",
    "consequence": "single point of failure: no grants while it is down, and after a"
    " restart it grants locks that other clients still hold",
    "clock assumptions": "monotonic clock rates of server and client differ by less than 0.1%",
    "evidence": "the resource's log and the recorded history",
}


LEASES = ("timed", "none")
KNOWN: Mapping[str, str] = {
    "leases": ", ".join(LEASES),
    "poll_ms": "longest pause between two polls in ms, 10 to 10000 (default: 100)",
    **TRACED,
}
"""option -> its values and what it does"""


def leases(options: Mapping[str, str]) -> bool:
    """Whether holds expire. Raises UsageError for unknown options or values."""
    choice = options.get("leases", LEASES[0])
    wrong = (
        [] if choice in LEASES else [f"single: leases={choice} is not one of {', '.join(LEASES)}"]
    )
    try:
        poll_s(options)
    except ValueError as error:
        wrong.append(f"single: {error}")
    known_options("single", options, KNOWN, wrong)
    return choice == LEASES[0]


def lease_server(
    node: Node, place: Place, options: Mapping[str, str], *, timed: bool = True
) -> Command:
    """How to start one lease server on a node."""
    config = {"name": node.name, "address": node.address, "port": DEFAULT_PORT, "leases": timed}
    return server_command("holdfast.clusters.systems.single.server", node, place, config, options)


class SingleSystem(InMemory):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.single.client:client"
    libraries: Sequence[str] = ()
    ports: Sequence[int] = (DEFAULT_PORT,)
    no_release = OWN_RELEASE

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Exclusion as long as the server lives. Raises UsageError."""
        timed = leases(options)
        kept = {prop: kinds for prop, kinds in KEEPS.items() if timed or prop not in BY_LEASE}
        return replace(
            LEASE_WITH_TOKENS,
            purpose="efficiency",
            bound="lease" if timed else "none",
            notice_ns=2 * SECOND,
            # A client that has just polled does so again after the longest pause.
            recovery_ns=2 * SECOND + round((poll_s(options)[1] - POLL_S[1]) * SECOND),
            keeps=kept,
            sheet=SHEET if timed else {**SHEET, **WITHOUT_LEASES},
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The same on every node; clients use the first."""
        return lease_server(node, place, options, timed=leases(options))

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the node responds."""
        return await status(node.address) is not None

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The first server, the only one in use."""
        return Leader(servers[0].name) if servers else None


SYSTEM = SingleSystem()
