"""A lock whose holder died is closed for a while: who is granted it too soon is found."""

from __future__ import annotations

import pytest

from holdfast.checkers.mutual_exclusion import check
from holdfast.harness.clock import SECOND
from tests.checkers.shorthand import case

DELAYED = {"bound": "session", "delay_ns": 4 * SECOND}
HELD = "0h?@0 0h+/5@0.1 0a?@0.2 0a+1@0.3 1h?@0.4 1h+/5@0.5 "


def kinds(text: str, **promises: object) -> list[str]:
    return [f.kind for f in check(case(HELD + text, promises=DELAYED | promises)).findings]


@pytest.mark.parametrize(("granted", "found"), [("8.8", ["early-grant"]), ("9.1", [])])
def test_a_grant_within_the_delay_after_a_death_is_early(granted: str, found: list[str]) -> None:
    """The session lasted until 5 at least, and the delay until 9."""
    assert kinds(f"1a?@6 1a+2@{granted} 1r?@20 1r+@20.1") == found


def test_without_a_promise_of_a_delay_nothing_is_early() -> None:
    assert kinds("1a?@6 1a+2@8.8", delay_ns=0) == []


def test_a_lock_that_was_given_back_has_no_delay() -> None:
    assert kinds("0r?@1 0r+@1.1 1a?@2 1a+2@2.1") == []
    assert kinds("0r?@1 1a?@2 1a+2@2.1") == [], "an unanswered release may have been taken in"


def test_who_may_have_held_before_is_not_early() -> None:
    told = "1a?@0 0h?@0 0h+/5@0.1 0a?@0.2 0a+@0.3 1h?@0.4 1h+/5@0.5 1a+@8.8"
    assert check(case(told, promises=DELAYED)).findings == ()


def test_an_operator_opens_a_lock_at_once() -> None:
    assert kinds("9f?@1 9f+@1.1 1a?@2 1a+2@2.1") == []


def test_a_told_loss_shortens_no_delay() -> None:
    assert kinds("0L@5.5 1a?@6 1a+2@8.8") == ["early-grant"]
