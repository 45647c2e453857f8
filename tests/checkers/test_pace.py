"""A run that was driven too slowly passes nothing, and hides no violation."""

from __future__ import annotations

from holdfast.checkers.coverage.offered_load import pace, planned, too_slow
from holdfast.checkers.properties.mutual_exclusion import check
from holdfast.checkers.properties.no_hung_request import check as hung
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.verdict import Verdict
from tests.checkers.shorthand import case

CALM = "0t? 0t+1 1t? 1t- 0r? 0r+ 1t? 1t+2 1r? 1r+"
DOUBLE = "0t? 0t+1 1t? 1t+2 0n? 0n+ 1r? 1r+ 0r? 0r+"


def driven(text: str, rate: int) -> Case:
    """Three acquires in two seconds, of which `rate` a second were due."""
    return case(
        text, start_ns=0, stop_ns=2 * SECOND, options={**case(text).options, "rate": str(rate)}
    )


def test_nine_tenths_of_what_was_due_is_enough() -> None:
    assert too_slow(driven(CALM, 0)) is None
    assert planned(driven(CALM, 0)) == 0
    assert too_slow(driven(CALM, 1)) is None
    assert planned(driven(CALM, 1)) == 2
    said = too_slow(driven(CALM, 2))
    assert said is not None
    assert said.startswith("driven at 75% of the planned rate, 3 of 4")


def test_a_slow_run_passes_nothing_and_its_violations_stand() -> None:
    slow = check(driven(CALM, 2))
    assert slow.verdict is Verdict.UNKNOWN
    assert "planned rate" in slow.reason
    assert "planned rate" not in check(driven(CALM, 1)).reason
    assert check(driven(DOUBLE, 2)).verdict is Verdict.VIOLATED
    assert hung(driven(CALM, 2)).verdict is Verdict.UNKNOWN


def test_latency_from_the_due_time_shows_what_waited_to_be_sent() -> None:
    found = driven(CALM, 1)
    found.history.rows["late"][0] = 7000
    told = plain(pace(found))
    sent, due = told["from_send_ns"], told["from_due_ns"]
    assert isinstance(sent, dict)
    assert isinstance(due, dict)
    assert due["max"] == sent["max"] + 7 * MILLISECOND
    assert (told["planned"], told["issued"]) == (2, 3)
