"""The lock state machine on terms: readers, permits, entering again, conditions, priorities."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.clusters.systems.reference.locks.state import PERMITS, SHARED
from holdfast.clusters.systems.reference.locks.state_machine import Locks
from holdfast.clusters.systems.reference.service.request_validation import command
from tests.clusters.test_locks import Log

READER = {"mode": SHARED}


class Told(Log):
    """Acquires on terms; the answer's "is" alone."""

    def __init__(self, order: str = "fifo") -> None:
        super().__init__()
        self.locks = Locks(order=order)

    def asks(self, session: int, attempt: int, wait_ns: int = -1, **terms: Any) -> str:
        return str(self.acquire(session, attempt, wait_ns, terms=terms)["is"])

    def tokens(self) -> list[int]:
        """Tokens in force, in the order of their grants."""
        return [hold.token for hold in self.locks.locks["a"].holds]


def test_readers_hold_together_with_one_token_and_a_writer_waits() -> None:
    log = Told()
    one, two, three = log.open(), log.open(), log.open()
    assert [log.asks(one, 1, **READER), log.asks(two, 2, **READER)] == ["granted", "granted"]
    assert log.asks(three, 3) == "queued"
    assert log.tokens() == [1, 1]
    log.release(one, 1, 1)
    assert log.settled() == []
    log.release(two, 2, 1)
    assert log.settled() == [(3, "granted")]
    assert log.tokens() == [2]


def test_no_reader_passes_a_writer_that_waits_and_all_go_in_after_it() -> None:
    log = Told()
    sessions = [log.open() for _ in range(4)]
    log.asks(sessions[0], 1, **READER)
    log.asks(sessions[1], 2)
    assert log.asks(sessions[2], 3, **READER) == "queued"
    assert log.asks(sessions[3], 4, 0, **READER) == "held"
    assert log.asks(sessions[3], 5, **READER) == "queued"
    log.release(sessions[0], 1, 1)
    assert log.settled() == [(2, "granted")]
    log.release(sessions[1], 2, 2)
    assert log.settled() == [(3, "granted"), (5, "granted")]


def test_a_writer_that_gives_up_lets_the_readers_behind_it_in() -> None:
    log = Told()
    sessions = [log.open() for _ in range(3)]
    log.asks(sessions[0], 1, **READER)
    log.asks(sessions[1], 2)
    log.asks(sessions[2], 3, **READER)
    log.ask("cancel", sessions[1], target=1, drop=False)
    assert log.settled() == [(2, "cancelled"), (3, "granted")]


def test_a_semaphore_lets_in_as_many_as_it_has_permits_for() -> None:
    log = Told()
    sessions = [log.open() for _ in range(3)]
    two_of_three = {"mode": PERMITS, "permits": 2, "limit": 3}
    assert log.asks(sessions[0], 1, **two_of_three) == "granted"
    assert log.asks(sessions[1], 2, **two_of_three) == "queued"
    assert log.asks(sessions[2], 3, 0, mode=PERMITS, permits=1, limit=3) == "held"
    log.release(sessions[0], 1, 1)
    assert log.settled() == [(2, "granted")]
    assert log.asks(sessions[0], 4, mode=PERMITS, permits=1, limit=3) == "granted"
    assert log.tokens() == [2, 3], "every permit has a token of its own"


def test_an_owner_comes_in_again_past_the_queue_and_goes_out_as_often() -> None:
    log = Told()
    one, two = log.open(), log.open()
    log.asks(one, 1, reenter=True)
    log.asks(two, 2, reenter=True)
    assert log.asks(one, 3, reenter=True) == "granted"
    assert log.tokens() == [1, 1]
    log.release(one, 3, 1)
    assert log.settled() == []
    assert log.release(one, 3, 1)["is"] == "not-holder", "each entry is given back once"
    log.release(one, 1, 1)
    assert log.settled() == [(2, "granted")]


def test_who_does_not_ask_to_come_in_again_waits_for_itself() -> None:
    log = Told()
    one = log.open()
    log.asks(one, 1)
    assert log.asks(one, 2) == "queued"


def test_a_condition_is_looked_at_when_one_comes_and_when_its_turn_comes() -> None:
    log = Told()
    one, two, three = log.open(), log.open(), log.open()
    assert log.asks(one, 1, newest=0) == "granted", "it was never granted before"
    assert log.asks(two, 2, newest=0) == "changed"
    assert log.asks(two, 3) == "queued"
    assert log.asks(three, 4, newest=1) == "queued"
    log.release(one, 1, 1)
    log.release(two, 3, 2)
    assert log.settled() == [(4, "changed")]
    assert "a" not in log.locks.locks
    assert log.locks.sessions[three].busy == 0


def test_a_race_looks_at_the_condition_too() -> None:
    log = Told("racing")
    one, two, three = log.open(), log.open(), log.open()
    log.asks(one, 1)
    log.asks(two, 2, newest=1)
    log.release(one, 1, 1)
    log.asks(three, 3)
    log.release(three, 3, 2)
    assert log.ask("acquire", two, seq=1, lock="a", attempt=2)["is"] == "changed"
    assert "a" not in log.locks.locks


def test_the_more_urgent_goes_first_until_the_others_have_aged() -> None:
    log = Told("priority")
    sessions = [log.open() for _ in range(6)]
    log.asks(sessions[0], 1)
    log.asks(sessions[1], 2, priority=0)
    served: list[int] = []
    token = 1
    for attempt in range(3, 7):
        log.asks(sessions[0], attempt, priority=2)
        holder = served[-1] if served else 1
        log.release(sessions[0] if holder != 2 else sessions[1], holder, token)
        token += 1
        served += [n for n, _ in log.settled()]
    assert served == [3, 4, 2, 5], "passed over twice it is as urgent, and came before"


def test_who_would_close_a_circle_of_waits_is_turned_down_and_told_why() -> None:
    log = Told()
    one, two, three = log.open(), log.open(), log.open()
    for session, lock in ((one, "a"), (two, "b"), (three, "c")):
        log.acquire(session, session, lock=lock)
    assert log.acquire(one, 11, lock="b")["is"] == "queued"
    assert log.acquire(two, 12, lock="c")["is"] == "queued"
    closing = log.acquire(three, 13, lock="a")
    assert closing["is"] == "deadlock"
    names = [f"c{session}" for session in (three, one, two)]
    assert closing["why"] == (
        f"{names[0]} waits for {names[1]} because of a, {names[1]} waits for {names[2]} because"
        f" of b, {names[2]} waits for {names[0]} because of c"
    )
    assert log.acquire(three, 14, 0, lock="a")["is"] == "held", "a try does not wait"
    log.ask("release", three, lock="c", attempt=three, token=3)
    assert log.settled() == [(12, "granted")], "the others go on"


def test_who_stands_behind_one_that_waits_for_it_closes_a_circle_too() -> None:
    log = Told()
    one, two, three = log.open(), log.open(), log.open()
    log.acquire(one, 1, lock="a")
    log.acquire(two, 2, lock="b")
    log.acquire(three, 3, lock="a")
    assert log.acquire(three, 4, lock="b")["is"] == "queued"
    assert log.acquire(two, 5, lock="a")["is"] == "deadlock", "behind three, who waits for two"


def test_readers_and_permits_and_oneself_are_no_cycle() -> None:
    log = Told()
    one, two = log.open(), log.open()
    log.acquire(one, 1, lock="a")
    log.acquire(two, 2, lock="b")
    assert log.acquire(one, 3, lock="a")["is"] == "queued", "it may not know that it holds"
    log.acquire(one, 4, lock="b")
    permit = {"mode": PERMITS, "permits": 1, "limit": 2}
    assert log.acquire(two, 5, lock="a", terms=permit)["is"] == "queued"


def test_all_of_it_survives_a_snapshot() -> None:
    log = Told("priority")
    one, two = log.open(), log.open()
    log.asks(one, 1, mode=PERMITS, permits=2, limit=2)
    log.asks(two, 2, mode=PERMITS, permits=1, limit=2, priority=3)
    log.asks(two, 3, newest=1, reenter=True)
    dump = log.locks.dump()
    assert Locks.load(json.loads(json.dumps(dump))).dump() == dump


@pytest.mark.parametrize(
    "terms",
    [
        {"mode": 3},
        {"permits": 2},
        {"permits": 0, "limit": 1},
        {"limit": True},
        {"reenter": 1},
        {"newest": -2},
        {"priority": 8},
        {"colour": 1},
        [],
    ],
)
def test_terms_that_make_no_sense_are_refused_at_the_door(terms: Any) -> None:
    frame = {"op": "acquire", "session": 1, "seq": 1, "done": 0, "lock": "a", "attempt": 1}
    frame |= {"ttl_ns": 5, "wait_ns": 0, "owner": "c"}
    assert command(frame)[1] == ""
    assert command({**frame, "terms": terms})[1].startswith("acquire: terms is")
