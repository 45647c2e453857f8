"""Sentences about overtakes: who waited, and who was granted before (`holds/waits.py`)."""

from __future__ import annotations

from holdfast.checkers.facts.wording import lock_name, name, seconds
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
