"""Types shared by all parts of the agent: evidence, errors, the fault protocol, claims of faults.

Several faults may break one thing, and the last one to heal restores it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from holdfast.harness.core.json_value import Json

Thing = TypeVar("Thing", bound=Hashable)


class FaultClaims(Generic[Thing]):
    """Things (links, nodes) and the faults that claim them, in the order of their claims."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[Thing, ...]] = {}

    def claim(self, fault: str, things: Iterable[Thing]) -> None:
        """The fault claims these things."""
        self._of[fault] = tuple(dict.fromkeys(things))

    def release(self, fault: str) -> tuple[Thing, ...]:
        """Releases all claims of the fault; returns them."""
        return self._of.pop(fault, ())

    def of(self, fault: str) -> tuple[Thing, ...]:
        """The claims of one fault."""
        return self._of.get(fault, ())

    def faults(self) -> list[str]:
        """The faults with claims, oldest first."""
        return list(self._of)

    def claimed(self) -> set[Thing]:
        """Everything that at least one fault claims."""
        return {thing for things in self._of.values() for thing in things}

    def claimants(self, thing: Thing) -> list[str]:
        """The faults that claim this thing, oldest first."""
        return [fault for fault, things in self._of.items() if thing in things]


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
