"""Clocks that are not sure hide a violation and never invent one: the signs of their error."""

from __future__ import annotations

from holdfast.checkers.holds.statements import RELEASES, RENEWALS, answers
from holdfast.checkers.properties import bounded_bypass
from holdfast.harness.core.clock import SECOND
from tests.checkers.shorthand import case

MORE_THAN_HALF = SECOND * 6 // 10
"""Words are a second apart; twice this is more than that."""


def test_who_asked_within_the_error_after_another_queued_did_not_surely_overtake_it() -> None:
    told = "9a? 9a+1 0a? 0Q 1a? 9r? 9r+ 1a+2 1r? 1r+ 0a+3"
    (finding,) = bounded_bypass.check(case(told)).findings
    assert finding.kind == "overtaken"
    assert not bounded_bypass.check(case(told, error_ns=MORE_THAN_HALF)).findings


def test_an_ok_asked_for_within_the_error_after_the_end_contradicts_nothing() -> None:
    for told, name in (
        ("0a? 0a+1 0r? 0r+ 0r? 0r+", RELEASES),
        ("0a? 0a+1 0r? 0r+ 0n? 0n+", RENEWALS),
    ):
        assert [list(each) for each in answers(case(told)).values()] == [[name]]
        assert not answers(case(told, error_ns=MORE_THAN_HALF))


def test_an_ok_of_an_attempt_beyond_all_that_ended_contradicts_nothing() -> None:
    assert not answers(case("0a? 0a+1 0r? 0r+ 1a? 1a+2 1n? 1n+"))
