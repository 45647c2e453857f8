"""Driver side of the compare-and-swap control: no server; the resource rejects outdated writes.

Promises: no lost update and jobs done once, under every fault
Does not promise: exclusive work; rejected work is wasted
Tested with: Holdfast's own tests
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.clusters.systems.controls.none.system import NoSystem
from holdfast.harness.core.verdict import Promises

SHEET = {
    "acquisition": "always granted, at once",
    "token enforcement": "none; a write based on an outdated version is rejected",
    "retry": "a rejected client reads again",
    "consequence": "exclusion is not needed for a register; it is for effects elsewhere",
    "purpose": "shows a use case that needs no lock",
}


class CompareAndSwap(NoSystem):
    """Like no lock, except `resource`: the mode of its resource. `SYSTEM` is the instance."""

    name = "cas"
    resource = "cas"

    def promises(self, options: Mapping[str, str]) -> Promises:
        """No lost update, and no job done twice. Raises UsageError: it has no options."""
        keeps = {"no-lost-update": ("any",), "exactly-once-job": ("any",)}
        nothing = super().promises(options)
        return replace(nothing, purpose="correctness", keeps=keeps, sheet=SHEET)


SYSTEM = CompareAndSwap()
