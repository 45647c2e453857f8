"""The rows that prove a finding, by the parts that they have in its rule."""

from __future__ import annotations

from holdfast.checkers.facts.wording import known_row
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.overlaps import proof_reach
from holdfast.harness.core.case import Case


def known(case: Case, **attempts: Attempt) -> dict[str, int]:
    """Of each attempt its acquire, and as `name_known` the row by which it was surely granted."""
    found: dict[str, int] = {}
    for name, a in attempts.items():
        found |= {name: a.row, f"{name}_known": known_row(case, a)}
    return found


def sides(case: Case, **attempts: Attempt) -> dict[str, int]:
    """Besides, as `name_proof`, the row whose call it surely still held at."""
    found = known(case, **attempts)
    for name, a in attempts.items():
        found[f"{name}_proof"] = a.proof_row if proof_reach(a) > a.inv_ns else a.row
    return found
