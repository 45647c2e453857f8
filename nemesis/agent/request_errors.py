"""Types shared by all parts of the agent: evidence, errors, the fault protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from holdfast.harness.core.json_value import Json

Evidence = dict[str, Json]
"""Measured evidence. `effective`: whether the fault has taken effect by now."""


class Refused(Exception):
    """A rejected request: what is wrong and what to do."""


class Kind(Protocol):
    """One kind of fault. `settle` applies the active faults to a node."""

    def inject(self, fault: str, args: Mapping[str, Json]) -> Evidence: ...

    def observe(self, fault: str) -> Evidence: ...

    def heal(self, fault: str) -> Evidence: ...

    def settle(self, node: str) -> None: ...
