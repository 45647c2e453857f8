"""The control without a lock, as the driver sees it: no server, no promise.

Promises: nothing
Does not promise: anything
Tested with: nothing but the harness
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import Command, Node, Place
from holdfast.harness.core.verdict import Promises


class NoSystem:
    """A System without servers; `SYSTEM` is the one."""

    name = "none"
    client = "holdfast.clusters.systems.controls.none.client:client"
    libraries: Sequence[str] = ()
    ports: Sequence[int] = ()

    def promises(self, options: Mapping[str, str]) -> Promises:
        if options:
            given = ", ".join(sorted(options))
            raise UsageError(f"{self.name}: no such option: {given}; it takes none")
        return Promises(
            purpose="efficiency",
            bound="none",
            renew_proves=False,
            release_proves=False,
            release_once=False,
            slip_ns=0,
            drift_ppm=0,
            tokens="none",
            tokens_unique=False,
            order="racing",
            notice_ns=0,
            recovery_ns=0,
            keeps={},
            sheet={"acquisition": "always granted", "purpose": "shows what a lock would buy"},
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        raise UsageError(f"{self.name}: there is no server to start; it runs on no nodes")

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        return True

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> str | None:
        return None


SYSTEM = NoSystem()
