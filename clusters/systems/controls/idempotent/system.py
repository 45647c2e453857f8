"""The idempotent write as the driver sees it: no server; the resource knows a command by its key.

Promises: a command takes effect once, and a job is done once, under every fault
Does not promise: that anybody works alone; updates that differ overwrite each other
Tested with: nothing but the harness
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.clusters.systems.controls.none.system import NoSystem
from holdfast.harness.core.verdict import Promises

SHEET = {
    "acquisition": "always granted, at once",
    "token enforcement": "none; a command that comes again is answered as the first time",
    "retry": "as often as one likes",
    "consequence": "work is done in vain, and its effect is there once",
    "purpose": "shows which use of a lock needs none",
}


class IdempotentWrite(NoSystem):
    """As no lock at all, but for `resource`: how its resource is kept. `SYSTEM` is the one."""

    name = "idempotent"
    resource = "idempotent"

    def promises(self, options: Mapping[str, str]) -> Promises:
        """One effect per command. Raises UsageError: it has no options."""
        keeps = {"exactly-once-job": ("any",), "applied-once": ("any",)}
        nothing = super().promises(options)
        return replace(nothing, purpose="correctness", keeps=keeps, sheet=SHEET)


SYSTEM = IdempotentWrite()
