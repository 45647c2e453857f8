"""The rows of a property: OPPORTUNITIES of the module of its name, which they stand in.

They are looked up by name, as checkers are in the catalogue: who judges a property has loaded it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module

from holdfast.checkers.opportunities.row import FaultClass, OpportunityRow
from holdfast.harness.properties import PROPERTIES


@cache
def rows_of(prop: str) -> Sequence[OpportunityRow]:
    """The rows of a property, of a user's none."""
    if prop not in PROPERTIES:
        return ()
    module = import_module(f"holdfast.checkers.properties.{prop.replace('-', '_')}")
    rows: Sequence[OpportunityRow] = module.OPPORTUNITIES
    return rows


def rows_for(prop: str, faults: FaultClass) -> list[OpportunityRow]:
    """The rows of a property under a class of faults."""
    return [row for row in rows_of(prop) if row.faults in (faults, FaultClass.ANY)]


def every_row() -> list[OpportunityRow]:
    """The rows of all properties."""
    return [row for prop in PROPERTIES for row in rows_of(prop)]
