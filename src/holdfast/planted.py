"""What is said of a bug that can be planted: one row of `mutants`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from holdfast import catalogue

AREAS = ("consensus", "lease", "queue", "session", "client", "terms", "resource")
ASSERTION = "a node's own assertion"
"""Found by a node that ends by itself, because it met what its own code rules out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One planted bug.

    part    what it is planted in: the name of a system, or "resource"
    area    which kind of bug it is, one of AREAS
    says    what is wrong, in one sentence
    breaks  the property whose checker must find it, or ASSERTION
    seeds   the simulator finds it within so many seeds of its swarm
    asked     the workload and its options that show it, where the swarm draws no such
    """

    part: str
    area: str
    says: str
    breaks: str
    seeds: int
    asked: tuple[str, Mapping[str, str]] = ("", MappingProxyType({}))

    @property
    def shown_by(self) -> str:
        """In words, the workload and options that show it; nothing where the swarm does."""
        options = "".join(f" --set {name}={value}" for name, value in self.asked[1].items())
        return f"workload {self.asked[0]}{options}" if self.asked[0] else ""

    @property
    def system(self) -> str:
        """The system that shows it: its own, or the reference service before the resource."""
        return "reference" if self.part == "resource" else self.part

    @property
    def checker(self) -> str:
        """The entry of what must catch it, ASSERTION where it is the node itself."""
        return catalogue.CHECKERS.get(self.breaks, ASSERTION)
