"""One write accepted twice is a finding; two writes are none."""

from __future__ import annotations

import pytest

from holdfast.checkers.facts import resource_log
from holdfast.checkers.properties import applied_once
from holdfast.harness.core.operations import ONCE, Op
from holdfast.harness.core.verdict import Verdict
from tests.checkers.shorthand import case, history

TWO_OWNERS = "0a? 0a+1 0w? 0S 0w+ 0r? 0r+ 1a? 1a+2 1w? 1S 1w+ 1r? 1r+"


def test_a_write_that_the_resource_takes_twice_is_applied_twice() -> None:
    (finding,) = applied_once.check(case("0a? 0a+1 0w? 0S 0S 0w+ 0r? 0r+")).findings
    assert finding.kind == "applied-twice"
    assert "as version 1 at 3.000 s and as version 2 at 4.000 s" in finding.sentence


def test_a_repeat_that_is_refused_is_not_applied() -> None:
    assert not applied_once.check(case("0a? 0a+1 0w? 0S 0S- 0w+ 0r? 0r+")).findings


def test_writes_of_two_are_two_writes() -> None:
    told = history(TWO_OWNERS)
    verdict = applied_once.check(case(told))
    assert verdict.verdict is Verdict.UNKNOWN and "sent twice" in verdict.reason
    told.rows["aux"][told.rows["f"] == Op.WRITE] = 1
    assert applied_once.check(case(told)).verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("named", "decided", "unlogged"),
    [(True, "+", []), (True, "-", [1]), (False, "+", [1])],
)
def test_a_command_of_a_key_is_logged_by_the_one_that_ran(
    named: bool, decided: str, unlogged: list[int]
) -> None:
    """Two clients send the command of one key; the resource runs the first, and says ok to both."""
    told = history(f"0a? 0a+1 0w? 0S{decided} 0w{decided} 1a? 1a+2 1w? 1w+")
    told.rows["aux"][told.rows["f"] == Op.WRITE] = ONCE if named else 0
    lacking = resource_log.log(case(told)).unlogged
    assert told.rows["process"][lacking].tolist() == unlogged
