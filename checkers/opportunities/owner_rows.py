"""Rows of the table about former owners: the same under every class of faults."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast.checkers.opportunities.fault_classes import FaultClass
from holdfast.checkers.opportunities.places.checked_owners import (
    expired_requests,
    foreign_releases,
    foreign_renewals,
    lost_holds,
    stale_requests,
)
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.row import ALL, OpportunityRow
from holdfast.harness.core.verdict import PlanChange, Promises


def _release_says(promises: Promises) -> bool:
    """Whether an ok of a release says that its attempt held the lock."""
    return promises.release_once or promises.release_proves


_row = partial(
    OpportunityRow, faults=FaultClass.ANY, change=PlanChange(), outlives=True, bounds=ALL
)
"""What they have in common: owners that go on after their lease, under any fault."""
OWNER_ROWS: Sequence[OpportunityRow] = (
    _row(
        id="ownership/foreign-release/any",
        property="ownership",
        defect="applies a release to the current holder, not to its sender",
        sentence="a former owner's release was answered after another had been granted the lock",
        twin="reference:release-by-lock",
        look=partial(
            near_faults, where=Where(foreign_releases, "no former owner's release was answered")
        ),
        promised=_release_says,
    ),
    _row(
        id="ownership/foreign-renewal/any",
        property="ownership",
        defect="applies a renewal to the current holder, or revives a hold that is over",
        sentence="a former owner's renewal was answered after another had been granted the lock",
        twin="reference:release-by-lock",
        look=partial(
            near_faults,
            where=Where(foreign_renewals, "no former owner's renewal was answered", seldom=True),
        ),
    ),
    _row(
        id="no-stale-write/unchecked-token/any",
        property="no-stale-write",
        defect="admits an older owner after a newer one",
        sentence="an older owner's request reached the resource after a newer one had been"
        " admitted",
        twin="reference:unchecked-tokens",
        look=partial(
            near_faults,
            where=Where(stale_requests, "no older owner's request came after a newer's"),
        ),
    ),
    _row(
        id="no-expired-write/unchecked-end/any",
        property="no-expired-write",
        defect="admits an owner whose hold is over",
        sentence="a write reached the resource after its owner's hold had certainly ended",
        twin="reference:unchecked-tokens",
        look=partial(
            near_faults,
            where=Where(expired_requests, "no write of an owner whose hold had ended came"),
        ),
    ),
    _row(
        id="loss-notice/no-notice/any",
        property="loss-notice",
        defect="does not notify a holder of the loss of its lock",
        sentence="a holder that could be reached lost its lock",
        twin="reference:unheard-loss",
        look=partial(near_faults, where=Where(lost_holds, "no holder lost its lock")),
    ),
)
