"""Lost updates: what is missing from the chain that leads to the last write."""

from __future__ import annotations

from holdfast.checkers.properties.no_lost_update import check
from holdfast.harness.core.verdict import Verdict
from tests.checkers.shorthand import case, history

HANDED_OVER = "0a? 0a+1 1a? 0w?=0 0S+ 0w+=1 0r? 0r+ 1a+2 1w?=1 1S+ 1w+=2 1r? 1r+"
OVERWRITTEN = "0a? 0a+1 1a? 0w?=0 0S+ 0w+=1 0r? 0r+ 1a+2 1w?=0 1S+ 1w+=2 1r? 1r+"


def test_each_write_upon_the_one_before_loses_nothing() -> None:
    verdict = check(case(HANDED_OVER))
    assert verdict.verdict is Verdict.HOLDS, verdict
    assert verdict.exercised["updates after another owner's"] == 1


def test_two_writes_upon_one_version_lose_the_first() -> None:
    verdict = check(case(OVERWRITTEN))
    assert verdict.verdict is Verdict.VIOLATED
    (finding,) = verdict.findings
    assert "c1 wrote version 2 of 'db' on version 0 at 10.000 s" in finding.sentence
    assert "the update of c0, accepted as version 1 at 4.000 s, is lost" in finding.sentence
    assert len(finding.witnesses) == 4


def test_no_update_after_another_owners_tried_nothing() -> None:
    verdict = check(case("0a? 0a+1 1a? 0w?=0 0S+ 0w+=1 0w?=1 0S+ 0w+=2 0r? 0r+ 1a+2 1d? 1D+ 1d+=2"))
    assert verdict.verdict is Verdict.UNKNOWN
    assert verdict.reason == "no update followed another owner's: 0 of 2"


def test_a_refused_write_takes_no_part() -> None:
    text = HANDED_OVER + " 0w?=0 0S- 0w-"
    assert check(case(text)).verdict is Verdict.HOLDS


def test_a_blind_write_builds_on_what_was_there() -> None:
    text = "0a? 0a+1 0w?=0 0S+ 0w+ 0w? 0S+ 0w+ 0r? 0r+ 1a? 1a+2 1w?=2 1S+ 1w+ 1r? 1r+"
    assert not check(case(text)).findings
    text = "0a? 0a+1 0w?=0 0S+ 0w+ 0w? 0S+ 0w+ 0r? 0r+ 1a? 1a+2 1w?=1 1S+ 1w+ 1r? 1r+"
    (finding,) = check(case(text)).findings
    assert "accepted as version 2" in finding.sentence


def test_one_op_accepted_twice_is_not_lost_to_itself() -> None:
    text = "0a? 0a+1 0w?=0 0S+ 0S+ 0w+ 0r? 0r+ 1a? 1a+2 1w?=2 1S+ 1w+ 1r? 1r+"
    assert not check(case(text)).findings


def test_an_op_accepted_again_later_loses_what_was_between() -> None:
    text = "0a? 0a+1 0w?=0 0S+ 0r? 0r+ 1a? 1a+2 1w?=1 1S+ 1w+ 1r? 1r+ 0S+"
    (finding,) = check(case(text)).findings
    assert "the update of c1, accepted as version 2" in finding.sentence


def test_a_register_that_falls_back_has_lost_what_it_had_accepted() -> None:
    text = HANDED_OVER + " 0a? 0a+3 0w?=0 0S+=1 0w+ 0r? 0r+"
    findings = check(case(text)).findings
    assert len(findings) == 2
    assert "took version 1 of 'db' again" in findings[0].sentence


def test_locks_have_chains_of_their_own() -> None:
    text = "0a?:x 0a+1 0w?=0 0S+ 0w+ 0r? 0r+ 1a?:y 1a+1 1w?=0 1S+ 1w+ 1r? 1r+".replace(
        "0w?", "0w?:x"
    )
    text = text.replace("1w?", "1w?:y")
    assert not check(case(text)).findings


def test_missing_rows_do_not_bring_a_lost_update_back() -> None:
    told = history(OVERWRITTEN, problems=["writer c0: rows 0 to 2 are missing"])
    assert check(case(told)).verdict is Verdict.VIOLATED
