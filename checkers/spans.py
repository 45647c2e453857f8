"""What a report draws for a finding: the spans in which clients believed that they held."""

from __future__ import annotations

from holdfast.checkers.holds import Attempt
from holdfast.checkers.sentences import who
from holdfast.harness.case import Case


def believed(case: Case, *attempts: Attempt) -> tuple[tuple[int, int, str, int], ...]:
    """[from_ns, to_ns, label, row] of the certain holds; one still open ends with the run."""
    return tuple(
        (a.certain[0], min(a.certain[1], case.end_ns), who(case, a), a.row)
        for a in attempts
        if a.certain is not None
    )
