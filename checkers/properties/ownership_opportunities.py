"""Where typical defects of ownership would show."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast.checkers.opportunities.places.checked_owners import foreign_releases, foreign_renewals
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.row import OpportunityRow, of_any_fault
from holdfast.harness.core.verdict import PlanChange, Promises


def _release_says(promises: Promises) -> bool:
    """Whether an ok of a release says that its attempt held the lock."""
    return promises.release_once or promises.release_proves


OPPORTUNITIES: Sequence[OpportunityRow] = (
    of_any_fault(
        id="ownership/foreign-release/any",
        property="ownership",
        change=PlanChange(),
        outlives=True,
        defect="applies a release to the current holder, not to its sender",
        sentence="a former owner's release was answered after another had been granted the lock",
        twin="reference:release-by-lock",
        look=partial(
            near_faults, where=Where(foreign_releases, "no former owner's release was answered")
        ),
        promised=_release_says,
    ),
    of_any_fault(
        id="ownership/foreign-renewal/any",
        property="ownership",
        change=PlanChange(),
        outlives=True,
        defect="applies a renewal to the current holder, or revives a hold that is over",
        sentence="a former owner's renewal was answered after another had been granted the lock",
        twin="reference:release-by-lock",
        look=partial(
            near_faults,
            where=Where(foreign_renewals, "no former owner's renewal was answered", seldom=True),
        ),
    ),
)
