"""Answers about a lock, held against what had happened to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.checkers.properties import truthful_queries
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.operations import (
    CHANGED,
    Mode,
    Op,
    Status,
    Terms,
    attempt_id,
    carried,
    spent,
)
from holdfast.harness.core.verdict import Verdict
from tests.checkers.faults import window
from tests.checkers.shorthand import case, history, on

PLAIN = Terms()


def kinds(text: str, *terms: Terms, refused: str = "") -> list[str]:
    told = on(history(text), *terms)
    if refused:
        told.strings.append(refused)  # type: ignore[attr-defined]
        told.rows["err"][told.rows["status"] == Status.FAIL] = len(told.strings) - 1
    found = truthful_queries.check(case(told)).findings
    return [finding.kind for finding in found]


HELD = "0a? 0a+7 0n? 0n+ "


@pytest.mark.parametrize(
    "text",
    [
        HELD + "1q? 1q+7=1 0r? 0r+",
        HELD + "0n? 1q? 1q+7=1 0n+",
        HELD + "1q? 0r? 0r+ 1q+",
        HELD + "1q? 0r? 0r+ 1q+7=1",
        "0a? 1q? 1q+7=0 0a~",
        "1q? 1q+",
        HELD + "1q?@30 1q+",
        HELD + "0r? 0r+ 2a? 2a~ 1q? 1q+9=0",
        HELD + "1q? 1q~",
        HELD + "0c? 0c+ 0r? 0r+",
        HELD + "0r? 0r+ 0c? 0c-",
        HELD + "0c? 0r? 0r+ 0c+",
        HELD + "0c? 0c-",
        HELD + "0c? 0c~ 0r? 0r+ 0c? 0c~",
    ],
)
def test_an_answer_that_can_be_right_is_let_pass(text: str) -> None:
    assert kinds(text) == []


@pytest.mark.parametrize(
    "text",
    [
        HELD + "1q? 1q+ 0n? 0n+",
        HELD + "0r? 0r+ 1q? 1q+7=1",
        HELD + "0r? 0r+ 2a? 2a+8 1q? 1q+7=1 2r? 2r+",
        HELD + "1q? 1q+9=0 0r? 0r+",
        HELD + "1q? 1q+7=0 0r? 0r+",
        HELD + "1q? 1q+7=4 0r? 0r+",
        HELD + "0L 1q? 1q+7=1",
        "1q? 1q+7=0 0a? 0a+7",
        HELD + "0r? 0r+ 0c? 0c+",
        HELD + "0c? 0c- 0n? 0n+",
        HELD + "0L 0c? 0c+",
    ],
)
def test_an_answer_that_cannot_be_right_is_false(text: str) -> None:
    assert kinds(text) == ["false-answer"]


def test_a_place_counts_those_who_can_wait_before() -> None:
    queue = "0a? 0a+1 1a? 1Q 2a? 2Q "
    assert kinds(queue + "2k? 2k+=1") == []
    assert kinds(queue + "1k? 1k+=0") == []
    assert kinds(queue + "1k? 1k+=1") == ["false-answer"], "the holder waits no more"
    assert kinds("3a? 3a~ " + queue + "1k? 1k+=1") == [], "who knows what became of that"


def test_a_place_does_not_grow() -> None:
    queue = "0a? 0a+1 3a? 3Q 1a? 1Q "
    assert kinds(queue + "1k? 1k+=0 1k? 1k+=1") == ["false-answer"]
    assert kinds(queue + "1k? 1k+=1 1k? 1k+=0") == []
    one_more = "1k?@9 1k+=0@10 1k?@10 1k+=1@11 1k?@12 1k+=1@13"
    assert kinds(queue + one_more) == ["false-answer"], "no matter what was answered in between"


@pytest.mark.parametrize(
    "text",
    [
        "0t? 0t~ 0a? 0a+7 0n? 0n+ 1q? 1q+7=0 0r? 0r+",
        "0t? 0t~ 0a? 0a+7 0r? 0r+ 0c? 0c+",
        "0a? 0a+7 0n? 0n+ 0t? 1q? 1q+7=0 0t~ 0r? 0r+",
    ],
)
def test_a_response_may_be_about_an_entry_whose_acquire_had_no_answer(text: str) -> None:
    """The entries of one owner share a token, and the service may count each one's renewals."""
    assert kinds(text, Terms(reenter=True)) == []
    assert kinds(text) == ["false-answer"], "without re-entry there is one hold"
    later = text.replace("0t? 0t~ ", "").replace("0t? ", "").replace("0t~ ", "") + " 0t? 0t~"
    assert kinds(later, Terms(reenter=True)) == ["false-answer"], "an entry after it is another"


def test_the_age_may_be_that_of_an_entry_whose_acquire_had_no_answer() -> None:
    for terms, found in ((Terms(reenter=True), []), (PLAIN, ["false-answer"])):
        told = on(history("0t?@0 0t~@1 0a?@2 0a+7@3 1q?@4 1q+7=0@5"), terms)
        told.rows["spent"][told.rows["f"] == Op.HOLDER] = spent(4 * SECOND, None)
        assert [one.kind for one in truthful_queries.check(case(told)).findings] == found


def test_who_waits_is_not_told_that_it_does_not() -> None:
    waits = "0a? 0a+1 1a? 1Q 1k? 1k+=-1 0n? 0n+ 0r? 0r+ 1a+2"
    assert kinds(waits) == ["false-answer"]
    assert kinds(waits.replace("1Q ", "")) == [], "its acquire may not have arrived yet"


def test_a_condition_is_met_or_not() -> None:
    after = "0a? 0a+1 0r? 0r+ 2a? 2a+2 2r? 2r+ 1a? 1a+3"
    assert kinds(after, PLAIN, Terms(newest=2)) == []
    assert kinds(after, PLAIN, Terms(newest=1)) == ["false-condition"]


def test_a_condition_said_to_be_broken_needs_somebody_who_can_have_held() -> None:
    text = "0a? 0a+1 0r? 0r+ 1a? 1a-"
    assert kinds(text, PLAIN, Terms(newest=1), refused=f"{CHANGED}: 2") == ["false-condition"]
    assert kinds(text, PLAIN, Terms(newest=1), refused="held") == []
    unknown = "2a? 2a~ " + text
    assert kinds(unknown, PLAIN, Terms(newest=1), refused=f"{CHANGED}: 2") == []


@pytest.mark.parametrize(
    ("text", "says", "found"),
    [
        (HELD + "1q? 1q+7=1", carried(attempt_id(0, 1)), []),
        (HELD + "1q? 1q+7=1", carried(attempt_id(0, 2)), ["false-answer"]),
        (HELD + "1q? 1q+7=1", "the office cat", ["false-answer"]),
        (HELD + "1q? 1q+7=1", "", []),
        (HELD + "0r? 0r+ 2a? 2a~ 1q? 1q+9=0", carried(attempt_id(2, 1)), []),
        (HELD + "0r? 0r+ 2a? 2a+9 1q? 1q+9=0", carried(attempt_id(0, 1)), ["false-answer"]),
    ],
)
def test_a_hold_carries_its_own_text(text: str, says: str, found: list[str]) -> None:
    told = history(text)
    told.strings.append(says)  # type: ignore[attr-defined]
    told.rows["err"][told.rows["f"] == Op.HOLDER] = len(told.strings) - 1
    assert [finding.kind for finding in truthful_queries.check(case(told)).findings] == found


@pytest.mark.parametrize(
    ("held", "left", "found"),
    [
        (2.0, None, []),
        (4.1, None, ["false-answer"]),
        (0.9, None, ["false-answer"]),
        (None, 10.0, []),
        (None, 10.1, ["false-answer"]),
        (None, None, []),
    ],
)
def test_a_hold_is_as_old_as_it_can_be(
    held: float | None, left: float | None, found: list[str]
) -> None:
    told = history("0a? 0a+7 1q?@2 1q+7=0@4")
    ages = (None if age is None else round(age * SECOND) for age in (held, left))
    told.rows["spent"][told.rows["f"] == Op.HOLDER] = spent(*ages)
    assert [finding.kind for finding in truthful_queries.check(case(told)).findings] == found


@pytest.mark.parametrize(("node", "found"), [("n1", []), ("c0", ["false-answer"])])
def test_a_server_whose_clock_stood_still_counts_less(node: str, found: list[str]) -> None:
    told = history("0a? 0a+7 1q?@4 1q+7=0@4.1")
    told.rows["spent"][told.rows["f"] == Op.HOLDER] = spent(SECOND, None)
    traits = Traits(stops=True, stops_monotonic=True)
    suspended = replace(window("pause", node, 1, 3), traits=traits)
    given = case(told, windows=[suspended])
    assert [finding.kind for finding in truthful_queries.check(given).findings] == found


def test_a_renewal_for_longer_leaves_more_of_a_lease() -> None:
    told = history("0a? 0a+7 0n?/20 0n+/20 1q? 1q+7=1")
    told.rows["spent"][told.rows["f"] == Op.HOLDER] = spent(None, 19 * SECOND)
    assert truthful_queries.check(case(told)).findings == ()


def test_nothing_asked_is_nothing_known() -> None:
    verdict = truthful_queries.check(case(HELD))
    assert verdict.verdict is Verdict.UNKNOWN
    assert "no response named a holder" in verdict.reason


READER = Terms(mode=Mode.SHARED)


def test_the_first_of_two_readers_may_be_named() -> None:
    text = "0a? 0a+7 1a? 1a+8 2q? 2q+7=0 0r? 0r+ 1r? 1r+"
    assert kinds(text, READER, READER, PLAIN) == []
    assert kinds(text, READER, PLAIN, PLAIN) == ["false-answer"], "a writer is not held beside"


@pytest.mark.parametrize("tokens", ["ordered", "none"])
def test_who_was_granted_and_gave_back_waits_no_more(tokens: str) -> None:
    text = "0a? 0Q 0a+7 0r? 0r+ 1a? 1a+8 0.1k? 0.1k+=-1 1n? 1n+"
    told = case(history(text), promises={"tokens": tokens})
    assert truthful_queries.check(told).findings == ()


@pytest.mark.parametrize(
    ("text", "tokens", "found"),
    [
        ("1a? 1a+7 0a? 0Q 0k? 0k+=-1 1n? 1n+ 1r? 1r+ 0a+8", "ordered", 1),
        ("1a? 0a? 0Q 1a+8 0k? 0k+=-1 1n? 1n+ 0a+7", "ordered", 0),
        ("1a? 1a+ 0a? 0Q 0k? 0k+=-1 1n? 1n+ 1r? 1r+ 0a+ 0n? 0n+", "none", 1),
        ("1a? 1a+ 0a? 0Q 0k? 0k+=-1 1n? 1n+ 1r? 1r+ 0a+", "none", 0),
    ],
)
def test_who_surely_waits_on_is_in_the_queue(text: str, tokens: str, found: int) -> None:
    told = case(history(text), promises={"tokens": tokens})
    assert len(truthful_queries.check(told).findings) == found
