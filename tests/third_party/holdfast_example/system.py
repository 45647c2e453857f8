"""A system with servers and a simulated server, which promises less than the built-in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.clusters.systems.single.system import SingleSystem
from holdfast.harness.core.verdict import Promises


class ModestSystem(SingleSystem):
    """One lease server that promises mutual exclusion only."""

    def promises(self, options: Mapping[str, str]) -> Promises:
        """What it promises. Raises UsageError for unknown options."""
        promised = super().promises(options)
        kept = {prop: kinds for prop, kinds in promised.keeps.items() if prop == "mutual-exclusion"}
        return replace(promised, keeps=kept)


SYSTEM = ModestSystem()
