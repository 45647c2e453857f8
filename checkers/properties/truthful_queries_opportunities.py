"""Where typical defects of truthful-queries would show."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast.checkers.opportunities.places.answered_queries import answers
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.row import CONTENDED, OpportunityRow, of_any_fault

OPPORTUNITIES: Sequence[OpportunityRow] = (
    of_any_fault(
        id="truthful-queries/false-answer/any",
        property="truthful-queries",
        defect="answers queries from an old or another state",
        sentence="a query was answered after a grant that was known",
        twin="reference:former-holder",
        look=partial(
            near_faults, where=Where(answers, "no query was answered after a known grant")
        ),
        change=CONTENDED,
    ),
)
