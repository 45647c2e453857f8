"""Holds of a server's record, from events written by hand."""

from __future__ import annotations

from holdfast.harness.core.clock import LARGEST, SECOND
from holdfast.harness.judging.recorded_holds import (
    ENDS,
    IN_GAP,
    OPEN,
    UNSEEN,
    RecordedHold,
    derived,
)
from holdfast.harness.recording.server_record import SEEN, RecordEvent
from tests.checkers.shorthand import case
from tests.harness.judging.records import events, record

OWNERS = {"1": "c0", str((1 << 32) | 1): "c1", str((2 << 32) | 1): "c2"}


def brief(holds: list[RecordedHold]) -> list[tuple[str, str, int, int]]:
    """(owner, state, place of the begin, place of the end) of each hold."""
    return [(OWNERS[hold.owner], hold.state, hold.at, hold.ends_at) for hold in holds]


def held(text: str) -> list[tuple[str, str, int, int]]:
    return brief(list(record(text).holds))


def test_a_hold_begins_with_its_entry_and_ends_with_its_deletion() -> None:
    assert held("+0@1 -0@2 +1@3") == [("c0", ENDS, 1, 2), ("c1", OPEN, 3, -1)]


def test_the_lowest_rank_holds_and_the_next_follows_when_it_is_deleted() -> None:
    told = held("+0#1@1 +1#2@1 +2#3@1 -1#2@2 -0#1@3")
    assert told == [("c0", ENDS, 1, 5), ("c2", OPEN, 5, -1)]


def test_a_waiter_that_gives_up_never_held() -> None:
    assert held("+0#1@1 +1#2@1 -1#2@2") == [("c0", OPEN, 1, -1)]


def test_an_event_that_comes_twice_changes_nothing() -> None:
    assert held("+0@1 +0@1 -0@2 -0@2") == [("c0", ENDS, 1, 3)]


def test_the_same_holder_after_a_gap_went_on() -> None:
    assert held("+0@1 ?1-3 =0@3 -0@4") == [("c0", ENDS, 1, 4)]


def test_another_holder_after_a_gap_means_that_the_hold_ended_within_it() -> None:
    holds = list(record("+0@1 ?1-3 =1@3").holds)
    assert brief(holds) == [("c0", IN_GAP, 1, 3), ("c1", OPEN, 3, -1)]
    assert (holds[0].ends_after_ns, holds[0].ends_before_ns) == (0, 3 * SECOND)
    assert holds[1].after_ns == 0


def test_a_free_lock_after_a_gap_means_the_same() -> None:
    assert held("+0@1 ?1-3 =@3") == [("c0", IN_GAP, 1, 3)]


def test_without_the_state_after_a_gap_nothing_is_known() -> None:
    holds = list(record("+0@1 ?1-3 +1@4").holds)
    assert brief(holds) == [("c0", UNSEEN, 1, -1), ("c1", OPEN, 3, -1)]
    assert holds[0].ends_before_ns == LARGEST


def test_an_entry_that_is_overwritten_has_two_holders() -> None:
    (pair,) = record("+0@1 +1@2").double
    assert brief(list(pair)) == [("c0", ENDS, 1, 2), ("c1", OPEN, 2, -1)]
    assert not record("+0#1@1 +1#2@2").double


def test_an_event_was_done_after_what_is_known_to_be_before_it() -> None:
    told = case("0a?@2 0a+@3 1a?@4 1a+@6")
    first, second = record("+0@5 s@3 -0@6 +1@7", told).holds
    assert (first.after_ns, first.before_ns) == (2 * SECOND, 5 * SECOND)
    assert (first.ends_after_ns, first.ends_before_ns) == (3 * SECOND, 6 * SECOND)
    assert (second.after_ns, second.before_ns) == (4 * SECOND, 7 * SECOND)


def test_places_after_a_gap_are_not_compared_with_those_before_it() -> None:
    told = case("0a?@2 0a+@9")
    holds = record("s@5 ?5-6 =@6 +0@7", told).holds
    assert [hold.after_ns for hold in holds] == [2 * SECOND]


def test_a_time_that_comes_with_an_earlier_place_than_was_read_is_not_used() -> None:
    at = list(events("+0@3 -0@4"))
    stale = RecordEvent(event=SEEN, t_ns=8 * SECOND, at=0)
    called = {"1": 2 * SECOND}
    (early,) = derived([stale, *at], called).holds
    (late,) = derived([*at, stale], called).holds
    assert (early.after_ns, late.after_ns) == (8 * SECOND, 2 * SECOND)


def test_the_end_of_a_lease_that_is_not_announced_may_have_been_any_time_before() -> None:
    (hold,) = record("+0@1 s@5 x0@6", case("0a?@1 0a+@2")).holds
    assert (hold.ends_after_ns, hold.ends_before_ns) == (SECOND, 6 * SECOND)


def test_a_record_covers_what_was_done_before_its_end_and_in_no_gap() -> None:
    told = record("+0@1 ?2-3 =0@3 !9")
    assert told.whole
    assert told.covers(4 * SECOND, 9 * SECOND)
    assert not told.covers(4 * SECOND, 10 * SECOND)
    assert not told.covers(0, 2 * SECOND)
    assert not told.covers(3 * SECOND, 4 * SECOND)
    cut = record("+0@1 s@4 -0@5")
    assert not cut.whole
    assert cut.covers(0, 4 * SECOND)
    assert not cut.covers(0, 5 * SECOND)
