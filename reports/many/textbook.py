"""The table that textbooks print from memory: a row per lock, a column per property, measured.

Each cell has what is claimed and what was seen, over all faults that were tried: one violation is
enough, and what was not exercised is not said to hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.harness.core.json_value import Json
from holdfast.harness.properties import PROPERTIES
from holdfast.reports.many.cell_claims import PARTITIONED, TEXTBOOK, cell_claim
from holdfast.reports.many.claims import CLAIMED, CellClaim
from holdfast.reports.many.matrix import HELD, NOT_EXERCISED, OPEN, VIOLATED, Matrix

NOT_JUDGED = "not judged"
AGAINST = "against the claim"
SAYS = (
    "Columns: the properties of the textbooks. Measured over all faults that were tried, and beside"
    f" it what is commonly claimed. {AGAINST.capitalize()}: violated under a fault under which the"
    " property is claimed."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One cell: the faults by the state of the property under them."""

    held: tuple[str, ...]
    open: tuple[str, ...]
    violated: tuple[str, ...]
    not_exercised: tuple[str, ...]
    claim: CellClaim | None

    @property
    def state(self) -> str:
        """One violated fault is enough; one that says nothing takes nothing away."""
        if self.violated:
            return VIOLATED
        if self.held:
            return HELD
        if self.open:
            return OPEN
        return NOT_EXERCISED if self.not_exercised else NOT_JUDGED

    @property
    def against(self) -> tuple[str, ...]:
        """The faults under which it was violated though it is claimed under them."""
        if self.claim is None:
            return ()
        return tuple(kind for kind in self.violated if self.claim.under(kind) == CLAIMED)

    def measured(self) -> str:
        """What was seen, in words."""
        parts = [
            f"{word} under {', '.join(kinds)}"
            for word, kinds in ((VIOLATED, self.violated), (HELD, self.held), (OPEN, self.open))
            if kinds
        ]
        if self.against:
            parts[0] += f" ({AGAINST})"
        return "; ".join(parts) or self.state

    def claimed(self) -> str:
        """The claim as a sentence; "" if it is unknown."""
        return "" if self.claim is None else self.claim.sentence()


def columns(found: Matrix) -> Sequence[str]:
    """Those of the textbooks' properties, all of them: what no run judged is a gap to see."""
    return [*(prop for prop in TEXTBOOK if prop in PROPERTIES), *PARTITIONED]


def entry(found: Matrix, system: str, column: str) -> Entry:
    """The cell of a lock and a column."""
    prop, only = PARTITIONED.get(column, (column, ""))
    by_state: dict[str, list[str]] = {}
    for fault in [only] if only else found.faults:
        square = found.squares.get((system, prop, fault))
        if square is not None:
            by_state.setdefault(square.state, []).append(fault)
    return Entry(
        held=tuple(by_state.get(HELD, ())),
        open=tuple(by_state.get(OPEN, ())),
        violated=tuple(by_state.get(VIOLATED, ())),
        not_exercised=tuple(by_state.get(NOT_EXERCISED, ())),
        claim=cell_claim(system, prop),
    )


def table(found: Matrix) -> Mapping[str, Any]:
    """System -> property -> its cell, JSON-ready."""
    return {
        system: {prop: _row(entry(found, system, prop)) for prop in columns(found)}
        for system in found.systems
    }


def _row(cell: Entry) -> dict[str, Json]:
    return {
        "state": cell.state,
        "held": list(cell.held),
        "open": list(cell.open),
        "violated": list(cell.violated),
        "not_exercised": list(cell.not_exercised),
        "claim": cell.claimed(),
        "against_the_claim": list(cell.against),
    }
