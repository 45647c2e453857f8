"""A job that is done twice, one that is never done, and what excuses neither."""

from __future__ import annotations

import pytest

from holdfast.checkers.properties.exactly_once_job import check
from holdfast.harness.core.job_keys import job_key, job_of, mark_key
from holdfast.harness.core.verdict import Verdict
from tests.checkers.shorthand import case, history

TURNS = "0a? 0a+1 1a? 1Q {one} 0r? 0r+ 1a+2 {other} 1r? 1r+"
DONE = "0d?:db#0 0D 0d+=0 0w?:db#0=0 0S 0w+=1"
FOUND = "1d?:db#0 1D 1d+=1 1d?:db#1 1D 1d+=0 1w?:db#1=0 1S+=1 1w+=1"


def judged(one: str, other: str) -> tuple[Verdict, list[str]]:
    verdict = check(case(TURNS.format(one=one, other=other)))
    return verdict.verdict, [finding.kind for finding in verdict.findings]


def test_jobs_that_are_done_in_turn_hold() -> None:
    assert judged(DONE, FOUND) == (Verdict.HOLDS, [])


def test_a_job_that_nobody_else_looked_for_was_not_put_to_the_test() -> None:
    assert judged(DONE, "") == (Verdict.UNKNOWN, [])


def test_two_effects_of_one_job_are_one_too_many() -> None:
    again = "1d?:db#0 1D 1d+=0 1w?:db#0=0 1S+=2 1w+=2"
    assert judged(DONE, again) == (Verdict.VIOLATED, ["job-done-twice"])


def test_an_effect_that_was_refused_is_none() -> None:
    late = "1d?:db#0 1D 1d+=1 1w?:db#0=0 1S- 1w-"
    assert judged(DONE, late) == (Verdict.HOLDS, [])


def test_a_job_that_somebody_was_told_is_done_must_have_been_done() -> None:
    assert judged("", "1d?:db#0 1D+=1 1d+=1") == (Verdict.VIOLATED, ["job-never-done"])


def test_a_job_that_was_passed_over_was_never_done() -> None:
    skipped = "0d?:db#0 0D 0d+=0 0w?:db#0=0 0w~ 0w?:db#1=0 0S+=1 0w+=1"
    assert judged(skipped, "") == (Verdict.VIOLATED, ["job-never-done"])


def test_the_first_open_job_may_still_be_under_way() -> None:
    begun = f"{FOUND} 1d?:db#2 1D 1d+=0 1w?:db#2=0"
    assert judged(DONE, begun) == (Verdict.HOLDS, [])


@pytest.mark.parametrize(
    ("unanswered", "kinds"), [("1w?:db#0=0", []), ("1d?:db#0", ["job-never-done"])]
)
def test_a_job_whose_effect_may_still_come_is_not_called_undone(
    unanswered: str, kinds: list[str]
) -> None:
    later = "1d?:db#1 1D 1d+=0 1w?:db#1=0 1S+=1 1w+=1"
    assert judged("", f"{later} {unanswered}")[1] == kinds


def test_a_lost_row_could_have_been_the_effect() -> None:
    skipped = "0w?:db#1=0 0S+=1 0w+=1 0d?:db#0 0D+=1 0d+=1"
    told = case(TURNS.format(one=skipped, other=""))
    assert check(told).verdict is Verdict.VIOLATED
    lost = history(TURNS.format(one=skipped, other=""), problems=["n rows are missing"])
    assert check(case(lost)).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("key", ["db", "db#", "db#x", "#", "db#1 done2", "db done"])
def test_other_keys_are_no_jobs(key: str) -> None:
    assert job_of(key) is None


def test_a_key_says_which_job_it_is() -> None:
    assert job_of(job_key("a#b", 12)) == ("a#b", 12, False)
    assert job_of(mark_key("db", 0)) == ("db", 0, True)
