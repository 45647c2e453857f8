"""Words that all parts of the agent share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Evidence = dict[str, Any]
"""What was measured. `bit` says whether the fault has changed anything by now."""


class Refused(Exception):
    """A request that cannot be met: where, what, and what to do about it."""


class Kind(Protocol):
    """One kind of fault. `settle` makes a node what the active faults want it to be."""

    def inject(self, fault: str, args: Mapping[str, Any]) -> Evidence: ...

    def observe(self, fault: str) -> Evidence: ...

    def heal(self, fault: str) -> Evidence: ...

    def settle(self, node: str) -> None: ...
