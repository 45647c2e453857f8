"""Ownership: an ok to somebody who cannot have been the owner."""

from __future__ import annotations

from typing import Any

from holdfast.checkers.properties import ownership
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from tests.checkers.shorthand import case


def judged(text: str, **changes: Any) -> PropertyVerdict:
    """The verdict on a history."""
    return ownership.check(case(text, **changes))


def kinds(verdict: PropertyVerdict) -> list[str]:
    """The kinds of its findings, in order."""
    return [finding.kind for finding in verdict.findings]


def test_a_stale_release_that_was_turned_down_holds() -> None:
    assert judged("0a? 0a+7 1a?@19 1a+8 0r? 0r! 1r? 1r+").verdict is Verdict.HOLDS


def test_rejected_renewals_are_counted_apart_from_releases() -> None:
    released = judged("0a? 0a+7 1a?@19 1a+8 0r? 0r! 1r? 1r+").exercised
    assert released["rejected as not the owner"] == 1
    assert released["of them renewals"] == 0
    renewed = judged("0a? 0a+7 1a?@19 1a+8 0n? 0n! 0r? 0r! 1n? 1n+ 1r? 1r+").exercised
    assert renewed["releases and renewals"] == 4
    assert renewed["rejected as not the owner"] == 2
    assert renewed["of them renewals"] == 1


def test_where_only_holders_asked_nothing_is_said() -> None:
    verdict = judged("0a? 0a+7 0n? 0n+ 0r? 0r+")
    assert verdict.verdict is Verdict.UNKNOWN
    assert verdict.reason == "no client but the holder released or renewed: 0 of 2"


def test_a_release_after_another_was_granted_convicts() -> None:
    verdict = judged("0a? 0a+7 1a?@19 1a+8 0r? 0r+")
    assert verdict.verdict is Verdict.VIOLATED
    (finding,) = verdict.findings
    assert (finding.kind, finding.witnesses) == ("foreign-release", (0, 1, 2))
    assert finding.sentence == (
        "c0's release of 'db' (token 7), sent at 21.000 s, returned ok although c1 (token 8)"
        " had been granted it by 20.000 s"
    )


def test_a_renewal_after_another_was_granted_convicts() -> None:
    assert kinds(judged("0a? 0a+7 1a?@19 1a+8 0n? 0n+")) == ["foreign-renewal"]


def test_an_ok_that_may_have_been_given_before_the_other_grant_is_right() -> None:
    assert kinds(judged("0a? 0a+7 1a? 0r?@4 1a+8 0r+")) == []


def test_an_ok_after_the_own_release_convicts() -> None:
    assert kinds(judged("0a? 0a+7 0r? 0r+ 0n? 0n+")) == ["foreign-renewal"]
    assert kinds(judged("0a? 0a+7 0r? 0r+ 0r? 0r+")) == ["foreign-release"]


def test_an_ok_to_a_refused_attempt_convicts() -> None:
    assert kinds(judged("0a? 0a- 0n? 0n+")) == ["foreign-renewal"]


def test_a_release_that_is_ok_to_whoever_says_nothing() -> None:
    weak = {"release_once": False, "release_proves": False}
    assert kinds(judged("0a? 0a+7 1a?@19 1a+8 0r? 0r+ 0r? 0r+", promises=weak)) == []


def test_a_renewal_that_says_little_convicts_amid_anothers_promised_hold_only() -> None:
    weak = {"renew_proves": False}
    assert kinds(judged("0a? 0a+7 1a?@19 1a+8 0n? 0n+", promises=weak)) == ["foreign-renewal"]
    assert kinds(judged("0a? 0a+7 1a?@19 1a+8 0n?@30 0n+", promises=weak)) == []


def test_the_first_wrong_ok_of_an_attempt_is_told() -> None:
    assert len(judged("0a? 0a+7 1a?@19 1a+8 0n? 0n+ 0n? 0n+ 0r? 0r+").findings) == 1
