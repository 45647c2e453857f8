"""Driver side of the majority vote: it promises what users expect of a lock, and cannot keep it.

Every node runs the lease server of `single`. The promises are those that users expect of such a
vote. Restarts, clock errors and tokens of independent servers break them, which Holdfast shows.

Promises: all promises of the reference service.
Does not promise: a queue.
Tested with: partitions, pauses, crashes and wall clock faults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.clusters.systems.majority.options import KNOWN, quorum_of
from holdfast.clusters.systems.operations import NO_LEADER, OWN_RELEASE, InMemory
from holdfast.clusters.systems.presets import LEASE_WITH_TOKENS
from holdfast.clusters.systems.reference.system import KEPT, known_options, status
from holdfast.clusters.systems.reference.wire.frames import DEFAULT_PORT
from holdfast.clusters.systems.single.system import lease_server
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

MOST = 1000
"""more servers than any run has, so that `promises` can check a quorum without their number"""

SHEET = {
    "owner identity": "one round of one attempt: a number that no two rounds share",
    "acquisition": "a grant from a quorum of independent lease servers",
    "queue": "none; a client that lost a round releases its leases, backs off and retries",
    "lease": "measured by each server on its own; 1% and 2 ms are reserved for clock error",
    "renewal": "a quorum must renew",
    "token enforcement": "largest token of the granting servers; counters of independent servers"
    " diverge, so a later grant may carry a smaller one",
    "timeout": "a server that does not respond within 250 ms counts as a rejection",
    "retry": "a new round under a new owner number",
    "consequence": "a restarted server has lost its votes, and two clients can both have a quorum",
    "clock assumptions": "the clocks of all servers run at nearly the same rate",
    "evidence": "the resource's log and the recorded history",
}


class MajoritySystem(InMemory):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.majority.factory:client"
    libraries: Sequence[str] = ()
    ports: Sequence[int] = (DEFAULT_PORT,)
    no_members = "its servers do not know each other"
    no_failover = NO_LEADER
    no_release = OWN_RELEASE

    def promises(self, options: Mapping[str, str]) -> Promises:
        """What the vote claims. Raises UsageError."""
        self._check(options, MOST)
        return replace(
            LEASE_WITH_TOKENS,
            notice_ns=2 * SECOND,
            recovery_ns=2 * SECOND,
            minority_ns=2 * SECOND,
            keeps=dict.fromkeys(KEPT, ("any",)),
            sheet=SHEET,
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """An independent lease server on every node."""
        self._check(options, len(servers))
        return lease_server(node, place, options)

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the node responds."""
        return await status(node.address) is not None

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """There is none."""
        return None

    def _check(self, options: Mapping[str, str], servers: int) -> None:
        wrong = []
        try:
            quorum_of(options, servers)
        except ValueError as error:
            wrong.append(str(error))
        known_options("majority", options, KNOWN, wrong)


SYSTEM = MajoritySystem()
