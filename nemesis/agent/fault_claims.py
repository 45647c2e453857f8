"""Who claims what: several faults may want one thing broken, and the last to heal mends it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Thing = TypeVar("Thing", bound=Hashable)


class Claims(Generic[Thing]):
    """Things (a link, a node) and the faults that claim them, in the order of their claims."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[Thing, ...]] = {}

    def claim(self, fault: str, things: Iterable[Thing]) -> None:
        """The fault wants these things broken from now on."""
        self._of[fault] = tuple(dict.fromkeys(things))

    def release(self, fault: str) -> tuple[Thing, ...]:
        """The fault wants nothing any more; returns what it had claimed."""
        return self._of.pop(fault, ())

    def of(self, fault: str) -> tuple[Thing, ...]:
        """What one fault claims."""
        return self._of.get(fault, ())

    def faults(self) -> list[str]:
        """The faults that claim something, oldest first."""
        return list(self._of)

    def claimed(self) -> set[Thing]:
        """Everything that at least one fault claims."""
        return {thing for things in self._of.values() for thing in things}

    def claimants(self, thing: Thing) -> list[str]:
        """The faults that claim this thing, oldest first."""
        return [fault for fault, things in self._of.items() if thing in things]
