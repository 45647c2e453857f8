"""Driver side of Azure blob leases, on the emulator `azurite`.

Promises: exclusion while the server runs and its wall clock is correct; a dead owner's lease ends,
    unless it is infinite (`--set leases=infinite`)
Does not promise: exclusion after a restart (the emulator stores nothing) or a clock step of the
    server; fencing tokens, loss notification
Tested with: azurite 3.35.0, which has the API of Azure without its replication, and
    azure-storage-blob 12.31.1
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.clusters.systems.azure_blob import ACCOUNT, KEY, LONGEST_S, PORT, SHORTEST_S
from holdfast.clusters.systems.operations import EMULATED, InMemory
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.presets import LEASE, kept
from holdfast.clusters.systems.response import response
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.durations import duration_text
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.fault_traits import CRASHES, CUTS, SKEWS, STOPS
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises

OPTIONS = {"leases": ("timed", "infinite")}
KEPT = {
    "timed": (CUTS, STOPS),
    "infinite": (CUTS, STOPS, SKEWS),
}
"""Option `leases` -> faults under which there is one owner."""
BY_LEASE = ("deadlock-freedom", "orphan-freedom")
AZURITE = "npm:azurite@3.35.0"
PROGRAM = Path("node_modules") / "azurite" / "dist" / "src" / "blob" / "main.js"
READY_WITHIN_S = 0.5


class AzureBlob(InMemory):
    """A System; `SYSTEM` is the instance."""

    client = "holdfast.clusters.systems.azure_blob.client:client"
    no_release = EMULATED
    libraries: Sequence[str] = (
        "azure-storage-blob==12.31.1", "azure-core==1.41.0", "isodate==0.7.2", "requests==2.34.2",
        "typing-extensions==4.16.0", "cryptography==50.0.2", "cffi==2.1.1", "pycparser==3.12",
        "certifi==2026.10.18", "idna==3.20", "charset-normalizer==3.5.2", "urllib3==2.8.0",
    )  # fmt: skip
    ports: Sequence[int] = (PORT,)
    backends: Sequence[str] = ("local", "local-proxy")
    confined_because = "needs Node for its server, which the nodes of other backends do not have"

    def promises(self, options: Mapping[str, str]) -> Promises:
        """Exclusion while the server keeps its leases. Raises UsageError."""
        leases = choose("azure-blob", options, OPTIONS)["leases"]
        timed = leases == "timed"
        keeps = kept(KEPT[leases], (CUTS, STOPS, CRASHES))
        if not timed:
            keeps = {prop: kinds for prop, kinds in keeps.items() if prop not in BY_LEASE}
        return replace(
            LEASE,
            bound="lease" if timed else "none",
            slip_ns=5 * MILLISECOND,
            recovery_ns=20 * SECOND,
            keeps=keeps,
            sheet=_sheet(timed),
        )

    def wrong_lease(self, lease_ns: int, options: Mapping[str, str]) -> str | None:
        """As `LimitsLeases`: 15 to 60 s, and any if leases are infinite."""
        if choose("azure-blob", options, OPTIONS)["leases"] == "infinite":
            return None
        if SHORTEST_S * SECOND <= lease_ns <= LONGEST_S * SECOND:
            return None
        return (
            f"--lease {duration_text(lease_ns)}: a blob is leased for {SHORTEST_S} to"
            f" {LONGEST_S} s, or without an end: use --lease {SHORTEST_S}s, or"
            " --set leases=infinite"
        )

    def server_pins(self, options: Mapping[str, str]) -> Sequence[str]:
        """The emulator, of npm."""
        return (AZURITE,)

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """The emulator on every node; clients use the first."""
        program = next((at / PROGRAM for at in place.shared if (at / PROGRAM).is_file()), None)
        if program is None:
            raise EnvironmentFailed(f"azure-blob: {AZURITE} is not among the run's packages")
        argv = (
            shutil.which("node") or "node",
            str(program),
            "--blobHost", node.address,
            "--blobPort", str(PORT),
            "--inMemoryPersistence",
            "--skipApiVersionCheck",
            "--disableTelemetry",
            "--disableProductStyleUrl",
            "--silent",
        )  # fmt: skip
        env = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
        log = place.run_dir / "logs" / node.name / "azurite.log"
        return Command(argv=argv, log=log, env=env)

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """Whether the emulator responds at all: it refuses a request without a signature."""
        head = f"Host: {node.address}:{PORT}\r\nConnection: close"
        question = f"GET /{ACCOUNT}?comp=list HTTP/1.1\r\n{head}\r\n\r\n".encode()
        reply = await response(node.address, PORT, question, READY_WITHIN_S)
        return b" 403 " in reply.partition(b"\n")[0]

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        """The one server that clients use."""
        return Leader(servers[0].name)


def _sheet(timed: bool) -> dict[str, str]:
    return {
        "owner identity": "a lease id per attempt, proposed by the client",
        "acquisition": "Lease Blob with action acquire; a rejected one is polled every 20 to 80 ms",
        "lease": f"whole seconds, {SHORTEST_S} to {LONGEST_S}, by the server's wall clock"
        if timed
        else "none: an infinite lease ends by its release, or by an operator's Break",
        "renewal": "action renew, which restarts the duration of the acquire",
        "token enforcement": "none: a lease id has no order",
        "timeout": "1 s per request; a request without a response is unknown",
        "retry": "none in the library (disabled); a lease of unknown state is released before the"
        " next acquire of the same client",
        "consequence": "a holder paused for longer than its lease is replaced without a"
        " notification"
        if timed
        else "the lock of a holder that dies is not granted again, until an operator breaks its"
        " lease",
        "clock assumptions": "the server's wall clock does not step" if timed else "none",
        "evidence": "an in-memory emulator: unlike Azure, a restart loses the container",
    }


SYSTEM = AzureBlob()
