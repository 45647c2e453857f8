"""Requests that come back late, or never, and those that have an excuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from holdfast.checkers.properties.no_hung_request import check
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import DELAY, PRESSURE, Op, Starved
from holdfast.harness.core.verdict import Verdict
from tests.checkers.faults import window
from tests.checkers.shorthand import case, history

BEFORE = "0a?@0 0a+1@1 1a?@1.5 0r?@2 0r+@3 1a+2@4 1r?@5 1r+@6 "


def judged(text: str, wait_s: float = 5, **changes: Any) -> Case:
    """A case in which every acquire is to wait wait_s at most."""
    told = history(BEFORE + text)
    asks = np.isin(told.rows["f"], (Op.ACQUIRE, Op.TRY, Op.PROBE))
    told.rows["aux"][asks] = round(wait_s * SECOND)
    return case(told, **changes)


def test_answers_in_time_hold() -> None:
    verdict = check(judged("2a?@10 2a-@15 2t?@16 2t-@17"))
    assert verdict.verdict is Verdict.HOLDS, verdict
    assert verdict.exercised["requests judged"] == 6


def test_an_acquire_answered_long_after_its_wait_was_over_hung() -> None:
    verdict = check(judged("2a?@10 2a-@25"))
    assert verdict.verdict is Verdict.VIOLATED
    assert verdict.findings[0].sentence == (
        "c2's acquire of 'db' at 10.000 s with a wait of 5.000 s at most returned 10.000 s"
        " after its time was over"
    )


LATE = {
    "a renewal": "0n?@10 0n+@20",
    "a release": "0.1r?@10 0.1r~@20",
    "an acquire given up": "2a?@10 2a~@25",
    "an acquire without an answer": "2a?@10 0a?@30 0a-@31",
}


@pytest.mark.parametrize("what", LATE)
def test_a_late_request_of_a_living_client_hung(what: str) -> None:
    assert check(judged(LATE[what])).verdict is Verdict.VIOLATED


def test_no_answer_is_counted_to_the_end_of_the_run() -> None:
    assert check(judged("2a?@10 0a?@23 0a-@23.9")).verdict is Verdict.HOLDS


def test_a_wait_without_bound_cannot_be_late() -> None:
    verdict = check(case(history(BEFORE + "2a?@10 2a-@60")))
    assert not verdict.findings
    assert verdict.reason == "no acquire had a bounded wait: 0 of 3"


EXCUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "it was killed": ("2a?@10 0a?@40 0a-@41", {"windows": (window("kill", "c2", 11, 14),)}),
    "it stopped dead": ("2a?@10 2C@11 0a?@40 0a-@41", {}),
    "it was paused": ("2a?@10 2a-@25", {"windows": (window("pause", "c2", 11, 14),)}),
    "its clock was moved": ("2a?@10 2a-@25", {"windows": (window("clock", "c2", 11, 14),)}),
}


@pytest.mark.parametrize("why", EXCUSED)
def test_a_client_that_was_stopped_is_excused(why: str) -> None:
    text, changes = EXCUSED[why]
    assert not check(judged(text, **changes)).findings


def test_overlapping_pauses_are_taken_off_once() -> None:
    pauses = (window("pause", "c2", 11, 13), window("clock", "c2", 11, 13))
    assert check(judged("2a?@10 2a-@28", windows=pauses)).findings
    apart = (window("pause", "c2", 11, 13), window("clock", "c2", 13, 16))
    assert not check(judged("2a?@10 2a-@28", windows=apart)).findings


def test_a_pause_of_somebody_else_excuses_nobody() -> None:
    pauses = (window("pause", "c0+n1", 9, 26),)
    assert check(judged("2a?@10 2a-@25", windows=pauses)).findings


def starved(kind: str, node: str, from_s: float, to_s: float) -> Starved:
    return Starved(node=node, kind=kind, from_ns=round(from_s * SECOND), to_ns=round(to_s * SECOND))


def test_time_in_which_the_client_had_no_processor_is_taken_off() -> None:
    """Late by 10 s, of which it could not run for 4 s: that is within the slack."""
    verdict = check(judged("2a?@10 2a-@25", starved=[starved(DELAY, "c2", 12, 16)]))
    assert verdict.verdict is Verdict.HOLDS, verdict
    assert check(judged("2a?@10 2a-@25", starved=[starved(DELAY, "c2", 2, 6)])).findings


@pytest.mark.parametrize(("kind", "node"), [(DELAY, "c0"), (DELAY, "driver"), (PRESSURE, "c2")])
def test_late_only_with_the_time_of_a_starved_host_is_unknown(kind: str, node: str) -> None:
    verdict = check(judged("2a?@10 2a-@25", starved=[starved(kind, node, 12, 16)]))
    assert verdict.verdict is Verdict.UNKNOWN
    assert not verdict.findings
    assert verdict.exercised["late on a starved host"] == 1
    assert "1 late requests are no evidence against the service: for 4.000 s from 10.000 s on" in (
        verdict.reason
    )


def test_a_starved_host_hides_no_request_that_hung_anyway() -> None:
    verdict = check(judged("2a?@10 2a-@45", starved=[starved(PRESSURE, "c2", 12, 16)]))
    assert verdict.verdict is Verdict.VIOLATED


def test_nothing_asked_proves_nothing() -> None:
    assert check(case("0a? 0a+1 0r? 0r+")).verdict is Verdict.UNKNOWN
