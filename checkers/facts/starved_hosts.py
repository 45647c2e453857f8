"""Why lateness on a host that was starved of CPU is unknown, and no evidence against a service."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.checkers.facts.wording import seconds, span
from holdfast.checkers.holds.starvation import starved_ns, without_starvation
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import STARVED, Finding


def only_starved(
    case: Case,
    found: Sequence[Finding],
    find: Callable[[Case], Sequence[Finding]],
    what: str,
) -> list[str]:
    """Reasons for UNKNOWN: findings that exist only if the time of a starved host counts.

    found   the findings of the case, which are a violation and need no such reason
    find    finds them
    """
    if found or not case.starved:
        return []
    every = find(without_starvation(case))
    return [excuse(case, len(every), what, min(one.t_ns for one in every))] if every else []


def excuse(case: Case, n: int, what: str, from_ns: int) -> str:
    """Why so many late responses or spans of waiting are no evidence against the service."""
    starved = span(starved_ns(case, from_ns, case.end_ns))
    return (
        f"{n} {what} are no evidence against the service: for {starved}"
        f" from {seconds(case, from_ns)} on {STARVED}"
    )
