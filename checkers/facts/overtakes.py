"""Sentences about overtakes: who waited, and who was granted before (`holds/waits.py`)."""

from __future__ import annotations

from holdfast.checkers.facts.wording import lock_name, name, seconds
from holdfast.checkers.holds.derive import ordered_tokens
from holdfast.checkers.holds.waits import Passed
from holdfast.harness.core.case import Case


def told(case: Case, one: Passed) -> str:
    """The waiting client, since when, and the client granted first: text for a sentence."""
    first = one.by[0]
    return (
        f"{name(case, one.attempt.process)} waited for '{lock_name(case, one.attempt)}' since"
        f" {seconds(case, one.queued_ns)} at the latest and was granted it with token"
        f" {one.attempt.token}; {name(case, first.process)} requested it at"
        f" {seconds(case, first.inv_ns)} and was granted it before, with token {first.token}"
    )


def unjudged(case: Case) -> str:
    """Why it does not show of any wait whether it was overtaken."""
    if not ordered_tokens(case):
        return "tokens do not show which of two clients was granted the lock first"
    return "no client that waited was granted the lock with a token in the order of grants"


def unbounded(case: Case) -> str:
    """Why no wait is too long."""
    return f"this system declares no order that bounds a wait ({case.promises.order})"
