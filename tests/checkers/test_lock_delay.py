"""A lock whose holder died is closed for a while: who is granted it too soon is found."""

from __future__ import annotations

import pytest

from holdfast.checkers.properties.lock_delay import delayed
from holdfast.checkers.properties.mutual_exclusion import check
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.verdict import Verdict
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


def test_locks_that_opened_after_a_delay_are_counted() -> None:
    exercised = check(case(HELD + "1a?@6 1a+2@9.1 1r?@20 1r+@20.1", promises=DELAYED)).exercised
    assert exercised["holders that died"] == 1
    assert exercised["locks opened after a lock-delay"] == 1


@pytest.mark.parametrize(
    ("told", "died", "says"),
    [
        (HELD + "0r?@1 0r+@1.1 1a?@2 1a+2@2.1 1r?@3 1r+@3.1", 0, "0 locks opened after 0 deaths"),
        (HELD + "1a?@0.6 1Q@0.7 1a~@20", 1, "0 locks opened after 1 death"),
    ],
)
def test_a_delay_that_was_not_put_to_the_test_says_so(told: str, died: int, says: str) -> None:
    counts, aside = delayed(case(told, promises=DELAYED))
    assert counts == {"holders that died": died, "locks opened after a lock-delay": 0}
    assert says in aside


def test_what_holds_says_that_its_delay_was_not_put_to_the_test() -> None:
    told = HELD + "1a?@0.6 1Q@0.7 0r?@1 0r+@1.1 1a+2@1.2 1h?@1.3 1h+/5@1.4 1r?@2 1r+@2.1"
    verdict = check(case(told, promises=DELAYED))
    assert verdict.verdict is Verdict.HOLDS, verdict.reason
    assert "lock-delay was not exercised" in verdict.reason
    assert "lock-delay" not in check(case(told, promises={"bound": "session"})).reason


def test_an_operator_leaves_the_delay_unjudged() -> None:
    assert "operator" in delayed(case(HELD + "9f?@1 9f+@1.1", promises=DELAYED))[1]


@pytest.mark.parametrize(("renewal", "found"), [("", ["early-grant"]), ("0n?/1@2 ", [])])
def test_an_unanswered_renewal_may_have_asked_for_a_shorter_lease(
    renewal: str, found: list[str]
) -> None:
    """A lease of 5 s from 1 on, a delay of 4 s; from 2 on perhaps of 1 s only."""
    text = f"0a?@0 0a+1@0.1 0n?/5@1 0n+@1.1 {renewal}0L@3.1 1a?@7.2 1a+2@7.5 1r?@8 1r+@9"
    promises = {"bound": "lease", "delay_ns": 4 * SECOND}
    assert [f.kind for f in check(case(text, promises=promises)).findings] == found
