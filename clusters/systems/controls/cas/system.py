"""Compare-and-swap as the driver sees it: no server; the resource itself keeps updates apart.

Promises: no lost update and jobs done once, under every fault
Does not promise: that anybody works alone; work that is refused was done in vain
Tested with: nothing but the harness
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.clusters.systems.controls.none.system import NoSystem
from holdfast.harness.core.verdict import Promises

SHEET = {
    "acquisition": "always granted, at once",
    "token enforcement": "none; a write that names a version is refused unless it is the newest",
    "retry": "who is refused reads again",
    "consequence": "exclusion is not needed for a register; for an effect elsewhere it is",
    "purpose": "shows which use of a lock needs none",
}


class CompareAndSwap(NoSystem):
    """As no lock at all, but for `resource`: how its resource is kept. `SYSTEM` is the one."""

    name = "cas"
    resource = "cas"

    def promises(self, options: Mapping[str, str]) -> Promises:
        """No lost update, and no job done twice. Raises UsageError: it has no options."""
        keeps = {"no-lost-update": ("any",), "exactly-once-job": ("any",)}
        nothing = super().promises(options)
        return replace(nothing, purpose="correctness", keeps=keeps, sheet=SHEET)


SYSTEM = CompareAndSwap()
