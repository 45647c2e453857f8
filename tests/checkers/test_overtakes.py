"""Who was overtaken for certain, how often that is allowed, and who starved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from holdfast.checkers.holds import history_index
from holdfast.checkers.holds.leases import INF
from holdfast.checkers.properties import bounded_bypass, bounded_wait, starvation_freedom
from holdfast.harness.core.operations import PLAIN, Mode, Terms
from holdfast.harness.core.verdict import Verdict
from tests.checkers import certified
from tests.checkers.shorthand import case, history, on

READER = Terms(mode=Mode.SHARED)
OVERTAKEN = "0a? 0a+1 1a? 1Q 2a? 2Q 0r? 0r+ 2a+2 2r? 2r+ 1a+3 1r? 1r+ 9p? 9p+4 9r? 9r+"


def kinds(text: str, *terms: Terms, order: str = "fifo", aging: int = -1) -> list[str]:
    told = case(on(history(text), *terms), promises={"order": order, "aging": aging})
    return [finding.kind for finding in bounded_bypass.check(told).findings]


def test_who_queued_first_and_is_granted_later_was_overtaken() -> None:
    assert kinds(OVERTAKEN) == ["overtaken"]


def test_where_whoever_asks_first_goes_first_there_is_no_bound() -> None:
    told = case(OVERTAKEN, promises={"order": "racing"})
    verdict = bounded_bypass.check(told)
    assert verdict.verdict is Verdict.UNKNOWN and "no order" in verdict.reason
    assert verdict.exercised["overtakes of one wait"] == 1


def test_a_place_ends_with_the_session_that_it_was_taken_in() -> None:
    """A library that asks again in the same call has a new place, behind whoever came between."""
    again = "0a? 0a+1 1a? 1Q 1C 2a? 2Q 1Q 0r? 0r+ 2a+2 2r? 2r+ 1a+3 1r? 1r+ 9p? 9p+4 9r? 9r+"
    assert kinds(again) == [] and kinds(again.replace("1C", "1L")) == []
    assert beyond(again) == []
    assert kinds(again.replace("1C", "3C")) == ["overtaken"], "another's session"
    assert kinds(again.replace("1C ", "").replace("1a? ", "1a? 1C ")) == ["overtaken"], "before"
    assert kinds(again.replace(" 1a+3", " 1a+3 1C").replace("1C 2a?", "2a?")) == ["overtaken"]


def test_the_second_program_refuses_an_overtake_of_a_place_that_was_lost() -> None:
    text = "0a? 0a+1 1a? 1Q {} 2a? 2Q 1Q 0r? 0r+ 2a+2 2r? 2r+ 1a+3 1r? 1r+ 9p? 9p+4 9r? 9r+"
    kept, lost = (certified.named(case(text.format(what))) for what in ("1Q", "1L"))
    proved = certified.told(kept, bounded_bypass.check(kept))
    assert proved["verdicts"][0]["findings"] and not certified.verified(kept, proved).refused
    assert certified.verified(lost, proved).refused


def test_by_priority_some_may_go_first() -> None:
    assert kinds(OVERTAKEN, order="priority", aging=7) == []
    again = " ".join(f"2a? 2a+{token} 2r? 2r+" for token in range(2, 9))
    many = f"0a? 0a+1 1a? 1Q 0r? 0r+ {again} 1a+9 1r? 1r+"
    assert "overtaken" in kinds(many, order="priority", aging=0), "7 times, with 3 clients"
    assert "overtaken" not in kinds(many, order="priority", aging=4)


def test_in_turn_nobody_is_overtaken() -> None:
    text = "0a? 0a+1 1a? 1Q 2a? 2Q 0r? 0r+ 1a+2 1r? 1r+ 2a+3 2r? 2r+ 9p? 9p+4 9r? 9r+"
    verdict = bounded_bypass.check(case(text))
    assert verdict.verdict is Verdict.HOLDS, verdict.reason
    assert verdict.exercised["judged waits"] == 2


def test_who_was_not_told_to_wait_before_the_other_asked_is_not_judged() -> None:
    assert kinds("0a? 0a+1 1a? 2a? 1Q 2Q 0r? 0r+ 2a+2 2r? 2r+ 1a+3 1r? 1r+") == []


def test_an_answer_that_comes_late_is_no_overtake() -> None:
    assert kinds("0a? 0a+1 1a? 1Q 0r? 0r+ 2a? 2Q 2a+3 1a+2 1r? 1r+") == []


def test_an_owner_that_comes_in_again_overtakes_nobody() -> None:
    assert kinds("0a? 0a+1 1a? 1Q 0a? 0a+1 0r? 0r+ 0.1r? 0.1r+ 1a+2 1r? 1r+") == []


def test_a_reader_that_joins_readers_passes_a_writer_but_not_one_of_its_kind() -> None:
    joins = "0a? 0a+1 1a? 1Q 2a? 2a+1 0r? 0r+ 2r? 2r+ 1a+2 1r? 1r+"
    assert kinds(joins, READER, PLAIN, READER) == [], "not one of its kind"


def test_a_writer_that_readers_pass_again_and_again_starves() -> None:
    passing = " ".join("2a? 2a+1 2r? 2r+" for _ in range(3))
    told = on(history(f"0a? 0a+1 1a? 1Q {passing} 0r? 0r+ 1a+2 1r? 1r+"), READER, PLAIN, READER)
    assert starvation_freedom.check(case(told)).findings == ()
    more = f"0a? 0a+1 1a? 1Q {passing} 2a? 2a+1 2r? 2r+ 0r? 0r+ 1a+2 1r? 1r+"
    told = on(history(more), READER, PLAIN, READER)
    assert [f.kind for f in starvation_freedom.check(case(told)).findings] == ["starved"]


def test_overtaken_more_than_once_by_every_other_is_starved() -> None:
    turns = " ".join(f"2a? 2a+{n} 2r? 2r+" for n in range(2, 7))
    told = case(f"0a? 0a+1 1a? 1Q 0r? 0r+ {turns} 1a+7 1r? 1r+ 9p? 9p+8 9r? 9r+")
    verdict = starvation_freedom.check(told)
    assert [finding.kind for finding in verdict.findings] == ["starved"]
    kinds_of_bypass = {f.kind for f in bounded_bypass.check(told).findings}
    assert kinds_of_bypass == {"starved", "overtaken"}, "the weaker one violates the stronger"


def test_tokens_that_are_not_promised_to_be_ordered_tell_nothing() -> None:
    told = case(OVERTAKEN, promises={"tokens": "unordered"})
    verdict = bounded_bypass.check(told)
    assert not verdict.findings and verdict.verdict is Verdict.UNKNOWN


def test_an_owner_whose_release_was_not_answered_may_come_in_again() -> None:
    """It holds on, where its release never arrived: it has the token that it had."""
    text = "0a? 0a+1 1a? 1Q 0r? 0r~ 0a? 0a+1 0.2r? 0.2r+ 1a+2 1r? 1r+"
    assert kinds(text) == []
    assert kinds(text.replace("0r~", "0r+")) == ["overtaken"]


# Grants to others beyond the queue ahead


def beyond(text: str, *terms: Terms, order: str = "fifo", aging: int = -1) -> list[str]:
    told = case(on(history(text), *terms), promises={"order": order, "aging": aging})
    return [finding.sentence for finding in bounded_wait.check(told).findings]


def test_a_grant_to_one_who_came_later_is_one_more_than_the_queue() -> None:
    (sentence,) = beyond(OVERTAKEN)
    assert "1 grants to others in its wait, of at most 0 that were ahead of it" in sentence


def test_whoever_was_overtaken_in_place_of_one_ahead_that_gave_up_waited_no_longer() -> None:
    """Client 3 queued before 1 and was never served; 2 came later and was."""
    text = "0a? 0a+1 3a? 3Q 1a? 1Q 2a? 2Q 3a- 0r? 0r+ 2a+2 2r? 2r+ 1a+3 1r? 1r+ 9p? 9p+4"
    assert kinds(text) == ["overtaken"]
    assert beyond(text) == []


def test_by_priority_a_wait_is_bounded_by_what_the_order_allows() -> None:
    assert beyond(OVERTAKEN, order="priority", aging=0) == []
    turns = " ".join(f"2a? 2Q 2a+{n} 2r? 2r+" for n in range(2, 9))
    text = f"0a? 0a+1 1a? 1Q 0r? 0r+ {turns} 1a+9 1r? 1r+"
    assert beyond(text, order="priority", aging=7) == []
    (sentence,) = beyond(text, order="priority", aging=1)
    assert "7 grants to others" in sentence and "and 4 that its order allows besides" in sentence


def test_a_reader_that_joins_readers_is_no_grant_before_a_writer() -> None:
    joins = "0a? 0a+1 1a? 1Q 2a? 2a+1 0r? 0r+ 2r? 2r+ 1a+2 1r? 1r+"
    assert beyond(joins, READER, PLAIN, READER) == []


def test_a_wait_that_is_not_ordered_by_tokens_is_not_judged() -> None:
    told = case(OVERTAKEN, promises={"tokens": "unordered"})
    assert bounded_wait.check(told).verdict is Verdict.UNKNOWN
    told = case(OVERTAKEN, promises={"order": "racing"})
    verdict = bounded_wait.check(told)
    assert verdict.verdict is Verdict.UNKNOWN and "no order" in verdict.reason
    assert verdict.exercised["grants beyond a queue"] == 1


def test_the_sorts_do_not_grow_with_the_waits_that_were_overtaken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    sort = np.sort

    def counted(array: Any) -> Any:
        calls.append("sort")
        return sort(array)

    monkeypatch.setattr(np, "sort", counted)
    sorts = []
    for rounds in (10, 40):
        words = ["0a? 0a+1"]
        for n in range(rounds):
            words += [f"1a? 1Q 2a? 2Q 0r? 0r+ 2a+{3 * n + 2} 2r? 2r+ 1a+{3 * n + 3}"]
            words += [f"0a? 0Q 1r? 1r+ 0a+{3 * n + 4}"]
        told = case(history(" ".join(words), lease=1e6))
        calls.clear()
        assert len(bounded_wait.check(told).findings) == rounds
        sorts.append(len(calls))
    assert sorts[0] == sorts[1] > 0


def test_the_next_event_of_a_group_is_found_for_each_time() -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        groups, asked = rng.integers(0, 4, 9), rng.integers(0, 5, 12)
        times, at = rng.integers(0, 30, 9), rng.integers(0, 30, 12)
        n = int(rng.integers(0, 10))
        expected = [
            min((t for g, t in zip(groups[:n], times[:n], strict=True) if g == of and t >= since),
                default=INF)
            for of, since in zip(asked, at, strict=True)
        ]  # fmt: skip
        got = history_index._next((groups[:n], times[:n]), (asked, at))
        assert got.tolist() == expected
