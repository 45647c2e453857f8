"""Clients that wait for each other's locks in a cycle, and those that only seem to."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.checkers.properties import no_multi_lock_deadlock, wait_cycles
from holdfast.harness.core.operations import Mode, Op, Status, Terms
from holdfast.harness.core.verdict import Verdict
from tests.checkers.faults import window
from tests.checkers.shorthand import case, history, on

HELD = "0a?:x/60 0a+1:x/60 1a?:y/60 1a+2:y/60 "
CIRCLE = HELD + "0a?:y 0Q:y 1a?:x 1Q:x 1a-:x@20 1.1r?:y@20.2 1.1r+:y@20.4 0a+3:y@21"


def kinds(text: str, **changes: Any) -> list[str]:
    found = no_multi_lock_deadlock.check(case(history(text), **changes)).findings
    return [finding.kind for finding in found]


def test_two_that_wait_for_each_other_are_a_cycle() -> None:
    (finding,) = no_multi_lock_deadlock.check(case(CIRCLE)).findings
    assert finding.kind == "multi-lock-deadlock"
    assert "c0 waited for 'y', held by c1, c1 waited for 'x', held by c0" in finding.sentence


def test_a_circle_that_is_broken_in_time_is_none() -> None:
    text = HELD + "0a?:y 0Q:y 1a?:x 1Q:x 1a-:x@8.5 1.1r?:y@9 1.1r+:y@9.5 0a+3:y@21"
    assert kinds(text) == []


def test_who_waits_without_being_waited_for_is_in_no_cycle() -> None:
    assert kinds(HELD + "2a?:x 2Q:x 1a?:x 1Q:x 1a-:x@20 2a+3:x@21") == []


def test_a_lock_whose_lease_is_over_keeps_nobody_waiting() -> None:
    short = CIRCLE.replace("1a?:y/60 1a+2:y/60", "1a?:y/3 1a+2:y/3")
    short = short.replace("1.1r?:y@20.2 1.1r+:y@20.4 ", "")
    assert kinds(short) == []


def test_of_many_circles_of_the_same_locks_the_first_is_a_finding() -> None:
    """Eight readers that all ask to write: every two of them wait for each other."""
    words = [f"{p}a?:x/9999 {p}a+{p + 1}:x/9999" for p in range(8)]
    words += [f"{p}.2a?:x {p}.2Q:x" for p in range(8)] + [f"{p}.2a-:x@{90 + p}" for p in range(8)]
    told = history(" ".join(words))
    told.rows["mode"][(told.rows["f"] == Op.ACQUIRE) & (told.rows["status"] == Status.OK)] = 1
    verdict = no_multi_lock_deadlock.check(case(told))
    (finding,) = verdict.findings
    assert finding.kind == "multi-lock-deadlock"
    assert verdict.exercised["wait-for cycles"] >= 7


def test_beyond_its_bounds_it_says_that_it_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_cycles, "MOST_EDGES", 1)
    verdict = no_multi_lock_deadlock.check(case(CIRCLE))
    assert verdict.verdict is Verdict.UNKNOWN and "too many waits" in verdict.reason
    monkeypatch.undo()
    monkeypatch.setattr(wait_cycles, "MOST_STEPS", 0)
    verdict = no_multi_lock_deadlock.check(case(CIRCLE))
    assert verdict.verdict is Verdict.UNKNOWN and "too many waits" in verdict.reason


def test_three_may_wait_in_a_cycle() -> None:
    held = "0a?:x/60 0a+1:x/60 1a?:y/60 1a+2:y/60 2a?:z/60 2a+3:z/60 "
    waits = "0a?:y 0Q:y 1a?:z 1Q:z 2a?:x 2Q:x 2a-:x@30 2.1r?:z@30.1 2.1r+:z@30.2"
    waits += " 1a+4:z@31 1.1r?:y@31.1 1.1r+:y@31.2 0a+5:y@32"
    assert kinds(held + waits) == ["multi-lock-deadlock"]


def test_readers_of_each_others_locks_are_no_cycle() -> None:
    reader = Terms(mode=Mode.SHARED)
    told = case(on(history(CIRCLE), reader, reader))
    assert no_multi_lock_deadlock.check(told).findings == ()


def test_a_circle_during_a_fault_is_not_judged() -> None:
    assert kinds(CIRCLE, windows=[window("pause", "c0", 0, 21)]) == []


def test_nobody_who_held_one_lock_and_waited_for_another_is_nothing_known() -> None:
    verdict = no_multi_lock_deadlock.check(case("0a? 0a+1 1a? 1Q 0r? 0r+ 1a+2"))
    assert verdict.verdict is Verdict.UNKNOWN
    assert "while it held another" in verdict.reason
