"""Compare-and-swap as the driver sees it: no server; the resource itself keeps updates apart.

Promises: no lost update, under every fault
Does not promise: that anybody works alone; work that is refused was done in vain
Tested with: nothing but the harness
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.harness.errors import UsageError
from holdfast.harness.ports import Command, Node, Place
from holdfast.harness.verdict import Promises

SHEET = {
    "acquisition": "always granted, at once",
    "token enforcement": "none; a write that names a version is refused unless it is the newest",
    "retry": "who is refused reads again",
    "consequence": "exclusion is not needed for a register; for an effect elsewhere it is",
    "purpose": "shows which use of a lock needs none",
}


class CompareAndSwap:
    """A System without servers; `SYSTEM` is the one. `resource` is how its resource is kept."""

    client = "holdfast.clusters.systems.none.client:client"
    resource = "cas"
    libraries: Sequence[str] = ()
    ports: Sequence[int] = ()

    def promises(self, options: Mapping[str, str]) -> Promises:
        """No lost update. Raises UsageError: it has no options."""
        if options:
            raise UsageError(f"cas: no such option: {', '.join(sorted(options))}; it takes none")
        return Promises(
            purpose="correctness",
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
            keeps={"no-lost-update": ("any",)},
            sheet=SHEET,
        )

    def command(
        self, node: Node, servers: Sequence[Node], place: Place, options: Mapping[str, str]
    ) -> Command:
        """Never asked for: it runs on no nodes."""
        raise UsageError("cas: there is no server to start; it runs on no nodes")

    async def ready(self, node: Node, options: Mapping[str, str]) -> bool:
        """There is nothing to wait for."""
        return True

    async def leader(self, servers: Sequence[Node], options: Mapping[str, str]) -> str | None:
        """There is none."""
        return None


SYSTEM = CompareAndSwap()
