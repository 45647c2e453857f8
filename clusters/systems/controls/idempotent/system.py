"""Driver side of the idempotent-write control: no server; the resource stores idempotency keys.

Promises: a command takes effect once, and a job is done once, under every fault
Does not promise: exclusive work; different updates overwrite each other
Tested with: Holdfast's own tests
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.clusters.systems.controls.none.system import NoSystem
from holdfast.harness.core.verdict import Promises

SHEET = {
    "acquisition": "always granted, at once",
    "token enforcement": "none; a repeated command gets the first response",
    "retry": "unlimited",
    "consequence": "work may be wasted; its effect happens once",
    "purpose": "shows a use case that needs no lock",
}


class IdempotentWrite(NoSystem):
    """Like no lock, except `resource`: the mode of its resource. `SYSTEM` is the instance."""

    name = "idempotent"
    resource = "idempotent"

    def promises(self, options: Mapping[str, str]) -> Promises:
        """One effect per command. Raises UsageError: it has no options."""
        keeps = {"exactly-once-job": ("any",), "applied-once": ("any",)}
        nothing = super().promises(options)
        return replace(nothing, purpose="correctness", keeps=keeps, sheet=SHEET)


SYSTEM = IdempotentWrite()
