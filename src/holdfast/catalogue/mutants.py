"""Planted bugs (mutants) that the checkers must find; off unless a run names one.

The table is `mutants.toml`: the bug, the property that it violates, and the number of swarm seeds
within which it must be found.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast import catalogue

AREAS = ("consensus", "lease", "queue", "session", "client", "terms", "resource")
ASSERTION = "a node's own assertion"
"""Found by a node that exits because one of its own assertions failed."""
TRACE = "the specification of its servers"
"""Found by the trace of the servers alone: no history of clients is known to show it."""


class Mutant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One planted bug.

    part    the component that it changes: the name of a system, or "resource"
    area    the kind of bug, one of AREAS
    says    the bug, in one sentence
    breaks  the property whose checker must find it, ASSERTION or TRACE
    seeds   the simulator's swarm finds it within this number of seeds
    """

    part: str
    area: str
    says: str
    breaks: str
    seeds: int

    @property
    def system(self) -> str:
        """The system to run: its own part, or `reference` for a bug in the resource."""
        return "reference" if self.part == "resource" else self.part

    @property
    def checker(self) -> str:
        """The entry of the checker that must find it, ASSERTION or TRACE."""
        return TRACE if self.breaks == TRACE else catalogue.CHECKERS.get(self.breaks, ASSERTION)


def _read() -> dict[str, Mutant]:
    """The rows of the table, whose headings are [part.area]."""
    parts = msgspec.toml.decode(
        Path(__file__).with_name("mutants.toml").read_bytes(),
        type=dict[str, dict[str, dict[str, dict[str, str | int]]]],
    )
    return {
        name: msgspec.convert({**row, "part": part, "area": area}, Mutant)
        for part, areas in parts.items()
        for area, rows in areas.items()
        for name, row in rows.items()
    }


MUTANTS = _read()
