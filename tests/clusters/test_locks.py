"""The lock state machine, one command after another."""

from __future__ import annotations

import json
from typing import Any, cast

from holdfast.clusters.systems.reference.locks.state import (
    MAX_SESSIONS,
    Answer,
    Command,
    Ended,
    Event,
    Freed,
    Settled,
)
from holdfast.clusters.systems.reference.locks.state_machine import Locks


class Log:
    """Commands in their order; each returns its answer, `events` has what came about."""

    def __init__(self, *, racing: bool = False) -> None:
        self.locks = Locks(order="racing" if racing else "fifo")
        self.events: list[Event] = []
        self.seqs: dict[int, int] = {}

    def put(self, op: str, **fields: Any) -> Answer:
        """Any command, as the next entry."""
        command = cast(Command, {"op": op, **fields})
        answer, self.events = self.locks.apply(self.locks.index + 1, command)
        return answer

    def open(self, ttl_ns: int = 0) -> int:
        """A new session."""
        return int(self.put("open", ttl_ns=ttl_ns)["session"])

    def ask(self, op: str, session: int, seq: int = 0, done: int = 0, **fields: Any) -> Answer:
        """A numbered request, under the next number unless one is given."""
        self.seqs[session] = seq or self.seqs.get(session, 0) + 1
        return self.put(op, session=session, seq=self.seqs[session], done=done, **fields)

    def acquire(self, session: int, attempt: int, wait_ns: int = -1, **more: Any) -> Answer:
        """An acquire of lock "a" for 5 ns."""
        given: dict[str, Any] = {"lock": "a", "ttl_ns": 5, "owner": f"c{session}", **more}
        return self.ask("acquire", session, attempt=attempt, wait_ns=wait_ns, **given)

    def release(self, session: int, attempt: int, token: int, **more: Any) -> Answer:
        """A release of lock "a"."""
        return self.ask("release", session, lock="a", attempt=attempt, token=token, **more)

    def settled(self) -> list[tuple[int, str]]:
        """Attempts that left the queue with the last command, and how."""
        ends = [event for event in self.events if isinstance(event, Settled)]
        return [(event.waiter.attempt, event.answer["is"]) for event in ends]

    def ended(self) -> list[tuple[int, str]]:
        """Attempts whose hold ended with the last command, and why."""
        ends = [event for event in self.events if isinstance(event, Ended)]
        return [(event.hold.attempt, event.reason) for event in ends]


def test_a_try_is_refused_while_another_holds() -> None:
    log = Log()
    one, two = log.open(), log.open()
    assert log.acquire(one, 1)["is"] == "granted"
    assert log.acquire(two, 2, wait_ns=0)["is"] == "held"


def test_waiters_are_served_in_the_order_they_came() -> None:
    log = Log()
    sessions = [log.open() for _ in range(3)]
    token = log.acquire(sessions[0], 1)["token"]
    assert log.acquire(sessions[1], 2)["place"] == 0
    assert log.acquire(sessions[2], 3)["place"] == 1
    log.release(sessions[0], 1, token)
    assert log.settled() == [(2, "granted")]
    log.release(sessions[1], 2, token + 1)
    assert log.settled() == [(3, "granted")]


def test_a_racing_lock_goes_to_whoever_asks_first() -> None:
    log = Log(racing=True)
    one, two, three = log.open(), log.open(), log.open()
    token = log.acquire(one, 1)["token"]
    log.acquire(two, 2)
    assert log.acquire(three, 3)["is"] == "queued"
    log.release(one, 1, token)
    assert [e.waiter.attempt for e in log.events if isinstance(e, Freed)] == [2, 3]
    assert log.acquire(three, 3, seq=1)["is"] == "granted", "the second in the queue was quicker"
    assert log.acquire(two, 2, seq=1)["is"] == "queued"


def test_tokens_grow_across_locks_and_snapshots() -> None:
    log = Log()
    session = log.open()
    assert log.acquire(session, 1)["token"] == 1
    assert log.acquire(session, 2, lock="b")["token"] == 2
    log.locks = Locks.load(json.loads(json.dumps(log.locks.dump())))
    assert log.acquire(session, 3, lock="c")["token"] == 3


def test_a_snapshot_holds_all_of_the_state() -> None:
    log = Log()
    one, two = log.open(), log.open(ttl_ns=9)
    log.acquire(one, 1)
    log.acquire(two, 2, wait_ns=7)
    log.acquire(two, 3, lock="b")
    log.put("force", lock="b", token=-1)
    dump = json.loads(json.dumps(log.locks.dump()))
    assert Locks.load(dump).dump() == dump


def test_the_same_request_twice_acts_once() -> None:
    log = Log()
    one = log.open()
    first = log.acquire(one, 1, seq=1)
    assert log.acquire(one, 1, seq=1) == first
    assert log.release(one, 1, first["token"], seq=2)["is"] == "released"
    assert log.acquire(one, 1, seq=1) == first, "the old answer, not a new grant"
    assert log.put("holder", lock="a", attempt=-1)["is"] == "free"


def test_a_finished_request_that_arrives_late_does_nothing() -> None:
    log = Log()
    one = log.open()
    token = log.acquire(one, 1, seq=1)["token"]
    log.release(one, 1, token, seq=2, done=2)
    assert log.acquire(one, 1, seq=1)["is"] == "stale"
    assert log.put("holder", lock="a", attempt=-1)["is"] == "free"


def test_a_cancelled_acquire_that_arrives_later_does_nothing() -> None:
    log = Log()
    one = log.open()
    assert log.ask("cancel", one, seq=2, target=1, drop=False)["is"] == "cancelled"
    assert log.acquire(one, 1, seq=1)["is"] == "cancelled"


def test_a_cancel_tells_of_a_grant_that_came_first() -> None:
    log = Log()
    one = log.open()
    token = log.acquire(one, 1, seq=1)["token"]
    kept = log.ask("cancel", one, seq=2, target=1, drop=False)
    assert (kept["is"], kept["token"], log.ended()) == ("granted", token, [])
    log.ask("cancel", one, seq=3, target=1, drop=True)
    assert log.ended() == [(1, "abandoned")]


def test_a_waiter_whose_client_went_on_leaves_the_queue() -> None:
    log = Log()
    one, two = log.open(), log.open()
    token = log.acquire(one, 1)["token"]
    log.acquire(two, 2, seq=1)
    log.acquire(two, 3, lock="b", seq=2, done=2)
    assert log.settled() == [(2, "given-up")]
    log.release(one, 1, token)
    assert log.put("holder", lock="a", attempt=-1)["is"] == "free"


def test_only_the_attempt_that_holds_can_release_or_renew() -> None:
    log = Log()
    one = log.open()
    token = log.acquire(one, 1)["token"]
    assert log.release(one, 2, token)["is"] == "not-holder", "the same client, another attempt"
    assert log.release(one, 1, token + 1)["is"] == "not-holder"
    renewal: dict[str, Any] = {"lock": "a", "attempt": 1, "ttl_ns": 9}
    assert log.ask("renew", one, token=token - 1, **renewal)["is"] == "not-holder"
    assert log.ask("renew", one, token=token, **renewal)["ttl_ns"] == 9


def test_a_late_release_does_not_free_the_next_holder() -> None:
    log = Log()
    one, two = log.open(), log.open()
    token = log.acquire(one, 1)["token"]
    granted = log.locks.index
    log.acquire(two, 2)
    log.put("expire", lock="a", attempt=1, token=token, renewal=granted)
    assert (log.ended(), log.settled()) == ([(1, "expired")], [(2, "granted")])
    late = log.release(one, 1, token)
    assert (late["is"], late["reason"]) == ("not-holder", "expired")
    assert log.put("holder", lock="a", attempt=-1)["attempt"] == 2


def test_an_expiry_that_a_renewal_overtook_does_nothing() -> None:
    log = Log()
    one = log.open()
    token = log.acquire(one, 1)["token"]
    granted = log.locks.index
    log.ask("renew", one, lock="a", attempt=1, token=token, ttl_ns=5)
    assert log.put("expire", lock="a", attempt=1, token=token, renewal=granted)["is"] == "overtaken"
    renewed = log.locks.index - 1
    assert log.put("expire", lock="a", attempt=1, token=token, renewal=renewed)["is"] == "expired"


def test_a_wait_that_times_out_leaves_no_waiter() -> None:
    log = Log()
    one, two = log.open(), log.open()
    token = log.acquire(one, 1)["token"]
    log.acquire(two, 2, seq=1)
    log.put("drop", session=two, seq=1, why="timed-out")
    assert log.settled() == [(2, "timed-out")]
    log.release(one, 1, token)
    assert log.locks.locks == {}
    assert log.acquire(two, 2, seq=1)["is"] == "timed-out"


def test_a_timeout_that_a_grant_overtook_does_nothing() -> None:
    log = Log()
    one, two = log.open(), log.open()
    token = log.acquire(one, 1)["token"]
    log.acquire(two, 2, seq=1)
    log.release(one, 1, token)
    assert log.put("drop", session=two, seq=1, why="timed-out")["is"] == "overtaken"
    assert log.put("holder", lock="a", attempt=-1)["attempt"] == 2


def test_a_dead_session_loses_all_its_locks_and_places() -> None:
    log = Log()
    one, two, three = log.open(ttl_ns=9), log.open(), log.open()
    beat = log.put("beat", session=one)
    assert beat["is"] == "alive"
    last = log.locks.index
    log.acquire(two, 1)
    log.acquire(one, 2)
    log.acquire(one, 3, lock="b")
    log.acquire(three, 4, lock="b")
    assert log.put("expire-session", session=one, beat=last - 1)["is"] == "overtaken"
    log.put("expire-session", session=one, beat=last)
    assert log.ended() == [(3, "session")]
    assert log.settled() == [(2, "session-ended"), (4, "granted")]
    assert log.acquire(one, 5)["is"] == "no-session"


def test_a_waiter_is_not_granted_after_its_session_is_gone() -> None:
    log = Log()
    one, two = log.open(), log.open(ttl_ns=9)
    token = log.acquire(one, 1)["token"]
    log.acquire(two, 2)
    log.put("close", session=two)
    log.release(one, 1, token)
    assert log.put("holder", lock="a", attempt=-1)["is"] == "free"


def test_an_operator_can_end_a_hold_but_not_the_next_one() -> None:
    log = Log()
    one = log.open()
    token = log.acquire(one, 1)["token"]
    assert log.put("force", lock="a", token=token + 1)["is"] == "not-held"
    assert log.put("force", lock="a", token=token)["is"] == "forced"
    assert log.ended() == [(1, "revoked")]
    assert log.locks.fate("a", token, 1) == "revoked"


def test_the_holder_and_the_queue_can_be_asked_for() -> None:
    log = Log()
    one, two = log.open(), log.open()
    log.acquire(one, 1)
    log.acquire(two, 2)
    said = log.put("holder", lock="a", attempt=2)
    assert (said["owner"], said["length"], said["place"]) == (f"c{one}", 1, 0)
    assert log.put("holder", lock="z", attempt=2)["is"] == "free"


def test_idle_sessions_are_forgotten_and_busy_ones_are_not() -> None:
    log = Log()
    busy, idle = log.open(), log.open()
    log.acquire(busy, 1)
    for _ in range(MAX_SESSIONS - 1):
        log.open()
    assert busy in log.locks.sessions
    assert idle not in log.locks.sessions
    assert len(log.locks.sessions) == MAX_SESSIONS
