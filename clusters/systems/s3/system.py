"""Driver side of S3 object locks, on the emulator of the package `moto`.

With `--set leases=none` (default), as in Terraform's S3 backend, a hold ends only by its release.

Promises: exclusion while the bucket keeps acknowledged writes; with `leases=timed` also while the
    wall clocks of all clients agree; with `tokens=counter` ordered tokens under the same faults
Does not promise: exclusion after a restart (the emulator stores nothing); loss notification;
    without leases, that the lock of a dead owner is ever granted again
Tested with: moto 5.2.5, which has the API of S3 without its replication, and boto3 1.44.5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.clusters.systems.moto_server import PINS, moto_server
from holdfast.clusters.systems.operations import EMULATED, InMemory
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.presets import LEASE, LEASE_WITH_TOKENS, kept
from holdfast.clusters.systems.response import response
from holdfast.clusters.systems.s3 import PORT
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.fault_traits import CUTS, SKEWS, STOPS
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

OPTIONS = {"leases": ("none", "timed"), "tokens": ("none", "counter")}
KEPT = {
    "none": (CUTS, STOPS, SKEWS),
    "timed": (CUTS, STOPS),
}
"""Option `leases` -> faults under which there is one owner."""
BY_LEASE = ("deadlock-freedom", "orphan-freedom")
READY_WITHIN_S = 0.5
SIGNED = (
    "AWS4-HMAC-SHA256 Credential=none/20200101/us-east-1/s3/aws4_request,"
    " SignedHeaders=host, Signature=none"
)
LEASES = {
    "none": "none: a hold ends by its release",
    "timed": "a time in the object, by the owner's wall clock; others compare it with theirs",
}
RENEWALS = {
    "none": "a read that finds the owner in the object",
    "timed": "a read and a put with If-Match of the etag that was read",
}
CONSEQUENCES = {
    "none": "the lock of a holder that dies is never granted again, unless its object is deleted by"
    " hand",
    "timed": "a holder paused for longer than its lease is replaced without a notification",
}
CLOCKS = {"none": "none", "timed": "the wall clocks of all clients agree, and do not step"}


class S3(InMemory):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.s3.client:client"
    libraries: Sequence[str] = PINS
    ports: Sequence[int] = (PORT,)
    no_release = EMULATED

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Exclusion while the bucket keeps its objects. Raises UsageError."""
        chosen = choose("s3", options, OPTIONS)
        leases, counts = chosen["leases"], chosen["tokens"] == "counter"
        safe = KEPT[leases]
        keeps = kept(safe, safe)
        if leases == "none":
            keeps = {prop: kinds for prop, kinds in keeps.items() if prop not in BY_LEASE}
        if counts:
            keeps |= {"token-order": safe, "no-stale-write": safe}
        return replace(
            LEASE_WITH_TOKENS if counts else LEASE,
            bound="lease" if leases == "timed" else "none",
            recovery_ns=10 * SECOND,
            slip_ns=5 * MILLISECOND,
            keeps=keeps,
            sheet=_sheet(leases, counts),
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The emulator on every node; clients use the first."""
        return moto_server(node, place, PORT)

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the emulator lists buckets; its first response takes seconds for loading."""
        head = f"Host: {node.address}:{PORT}\r\nAuthorization: {SIGNED}"
        question = f"GET / HTTP/1.0\r\n{head}\r\n\r\n".encode()
        reply = await response(node.address, PORT, question, READY_WITHIN_S)
        return b" 200 " in reply.partition(b"\n")[0]

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The one server that clients use."""
        return Leader(servers[0].name)


def _sheet(leases: str, counts: bool) -> dict[str, str]:
    return {
        "owner identity": "client and attempt, in the object",
        "acquisition": "a put with If-None-Match: * or, over an object that is free, with If-Match"
        " of its etag; polled every 20 to 80 ms",
        "lease": LEASES[leases],
        "renewal": RENEWALS[leases],
        "token enforcement": "a number in the object, one more with every put of a new owner; a"
        " release keeps the object"
        if counts
        else "none: an etag identifies a content, it has no order",
        "timeout": "1 s per request; a write without a response is unknown",
        "retry": "none in the library (disabled); a renewal or release is repeated when the object"
        " changed between read and write; an object that an unknown put or release has left is"
        " given back before the next acquire of the same client",
        "consequence": CONSEQUENCES[leases],
        "clock assumptions": CLOCKS[leases],
        "evidence": "an in-memory emulator: unlike S3, a restart loses the bucket",
    }


SYSTEM = S3()
