"""Lock-delay and sequencers of the lock state machine, and the mode that is made of them."""

from __future__ import annotations

import json

import pytest

from holdfast.clusters.systems.chubby.options import DEFAULTS
from holdfast.clusters.systems.chubby.system import SYSTEM
from holdfast.clusters.systems.reference.locks.sequencers import read, written
from holdfast.clusters.systems.reference.locks.state import Closed
from holdfast.clusters.systems.reference.locks.state_machine import Locks
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.errors import UsageError
from tests.clusters.test_locks import Log


class Delayed(Log):
    """A lock that closes when its holder dies."""

    def __init__(self) -> None:
        super().__init__()
        self.locks = Locks(delays=True)

    def dies(self, session: int) -> int:
        """The session is silent for too long; since when the lock is closed, 0: it is not."""
        self.put("expire-session", session=session, beat=self.locks.sessions[session].beat)
        return next((event.since for event in self.events if isinstance(event, Closed)), 0)


def test_a_lock_whose_holder_died_is_refused_until_the_delay_is_over() -> None:
    log = Delayed()
    one, two, three = log.open(5), log.open(5), log.open(5)
    log.acquire(one, 1)
    assert log.acquire(two, 2)["is"] == "queued"
    since = log.dies(one)
    assert since and log.settled() == []
    assert log.acquire(three, 3, wait_ns=0)["is"] == "held"
    state = json.loads(json.dumps(log.locks.dump()))
    log.locks = Locks.load(state)
    assert log.put("reopen", lock="a", since=since - 1)["is"] == "overtaken"
    log.put("reopen", lock="a", since=since)
    assert log.settled() == [(2, "granted")]


def test_a_lock_that_was_given_back_is_free_at_once() -> None:
    log = Delayed()
    one, two = log.open(5), log.open(5)
    log.acquire(one, 1)
    log.release(one, 1, 1)
    assert log.acquire(two, 2, wait_ns=0)["is"] == "granted"
    log.put("close", session=two)
    assert log.acquire(one, 3, wait_ns=0)["is"] == "granted", "who leaves has stopped"


def test_a_closed_lock_that_nobody_wants_is_forgotten_once_it_opens() -> None:
    log = Delayed()
    one = log.open(5)
    log.acquire(one, 1)
    since = log.dies(one)
    assert set(log.locks.locks) == {"a"}
    log.put("reopen", lock="a", since=since)
    assert log.locks.locks == {}


def test_a_sequencer_is_in_force_as_long_as_its_hold() -> None:
    log = Log()
    one, two = log.open(), log.open()
    token = log.acquire(one, 1)["token"]
    shown = written("a", token)
    assert read(shown) == ("a", token)
    assert log.put("check", sequencer=shown)["is"] == "in-force"
    log.release(one, 1, token)
    assert log.put("check", sequencer=shown)["is"] == "not-in-force"
    log.acquire(two, 2)
    assert log.put("check", sequencer=shown)["is"] == "not-in-force"
    assert log.put("check", sequencer=written("a", token + 1))["is"] == "in-force"


@pytest.mark.parametrize("shown", ["", "a", "1", "1.shared.a", "x.exclusive.a", "1.exclusive."])
def test_what_no_hold_ever_had_is_no_sequencer(shown: str) -> None:
    assert read(shown) is None
    assert Log().put("check", sequencer=shown)["is"] == "not-in-force"


def test_the_mode_has_sessions_and_a_delay_and_cannot_be_without() -> None:
    promises = SYSTEM.promises({})
    assert promises.bound == "session"
    assert promises.delay_ns == int(DEFAULTS["delay_ms"]) * MILLISECOND
    assert SYSTEM.promises({"delay_ms": "300"}).delay_ns == 300 * MILLISECOND
    with pytest.raises(UsageError, match="invalid option delay_ms=0: chubby"):
        SYSTEM.promises({"delay_ms": "0"})
    with pytest.raises(UsageError, match="system 'chubby': unknown option 'delay'"):
        SYSTEM.promises({"delay": "300"})
