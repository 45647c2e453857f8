"""Driver side of the DynamoDB lock, on the emulator of the package `moto`.

Promises: exclusion while the table keeps acknowledged writes, independent of wall clocks
Does not promise: exclusion after a restart (the emulator stores nothing), fencing tokens, loss
notification
Tested with: moto 5.2.5, which has the API of DynamoDB without its replication
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.clusters.systems.dynamodb import PORT
from holdfast.clusters.systems.dynamodb.table import HEADERS, NAMESPACE
from holdfast.clusters.systems.moto_server import PINS, moto_server
from holdfast.clusters.systems.operations import EMULATED, InMemory
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.presets import LEASE, kept
from holdfast.clusters.systems.response import response
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.fault_traits import CUTS, SKEWS, STOPS
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

KEPT = (CUTS, STOPS, SKEWS)
READY_WITHIN_S = 0.5
LISTING = {**HEADERS, "X-Amz-Target": f"{NAMESPACE}.ListTables", "Content-Length": "2"}
SHEET = {
    "owner identity": "a record version unique to one write of one attempt",
    "acquisition": "a conditional put: no record exists, or its version has not changed for its"
    " lease; polled every 20 to 80 ms",
    "lease": "measured by each waiter on its own monotonic clock, since it saw the version",
    "renewal": "a conditional put of a new version: the present one is ours",
    "token enforcement": "none: versions are unique, but not ordered",
    "timeout": "1 s per request; a write without a response is unknown",
    "retry": "none; a renewal after an unknown one accepts either version as ours",
    "consequence": "a holder paused for longer than its lease is replaced without a notification",
    "clock assumptions": "monotonic clocks of clients run at nearly the same rate",
    "evidence": "an in-memory emulator: unlike DynamoDB, a restart loses the table",
}


class DynamoDb(InMemory):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.dynamodb.client:client"
    ports: Sequence[int] = (PORT,)
    no_release = EMULATED
    libraries: Sequence[str] = PINS

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Exclusion while the table keeps its data. Raises UsageError: it has no options."""
        choose("dynamodb", options, {})
        return replace(
            LEASE,
            slip_ns=5 * MILLISECOND,
            recovery_ns=10 * SECOND,
            keeps=kept(KEPT),
            sheet=SHEET,
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The emulator on every node; clients use the first."""
        return moto_server(node, place, PORT)

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the emulator responds; its first response takes seconds for loading."""
        head = "".join(f"{name}: {value}\r\n" for name, value in LISTING.items())
        question = f"POST / HTTP/1.0\r\n{head}\r\n{{}}".encode()
        status, _, _ = (await response(node.address, PORT, question, READY_WITHIN_S)).partition(
            b"\n"
        )
        return b" 200 " in status

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The one server that clients use."""
        return Leader(servers[0].name)


SYSTEM = DynamoDb()
