"""Driver side of the control without a lock: no server, no promises.

Promises: nothing
Does not promise: anything
Tested with: Holdfast's own tests
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.clusters.systems.presets import LEASE
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import Command, Leader, Node, Place
from holdfast.harness.core.verdict import Promises


class NoSystem:
    """A System without servers; `SYSTEM` is the instance."""

    name = "none"
    client = "holdfast.clusters.systems.controls.none.client:client"
    libraries: Sequence[str] = ()
    ports: Sequence[int] = ()

    def promises(self, options: Mapping[str, str]) -> Promises:
        if options:
            given = ", ".join(sorted(options))
            raise UsageError(f"{self.name}: unknown option: {given}; it has no options")
        return replace(
            LEASE,
            purpose="efficiency",
            bound="none",
            renew_proves=False,
            release_proves=False,
            release_once=False,
            slip_ns=0,
            drift_ppm=0,
            sheet={"acquisition": "always granted", "purpose": "shows what happens without a lock"},
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        raise UsageError(f"{self.name}: no server to start; expected --nodes 0")

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        return True

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> Leader | None:
        return None


SYSTEM = NoSystem()
