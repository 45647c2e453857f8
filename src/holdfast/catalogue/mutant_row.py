"""What is said of a bug that can be planted: one row of `mutants`."""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    part: str
    area: str
    says: str
    breaks: str
    seeds: int

    @property
    def system(self) -> str:
        """The system that shows it: its own, or the reference service before the resource."""
        return "reference" if self.part == "resource" else self.part

    @property
    def checker(self) -> str:
        """The entry of what must catch it, ASSERTION where it is the node itself."""
        return catalogue.CHECKERS.get(self.breaks, ASSERTION)
