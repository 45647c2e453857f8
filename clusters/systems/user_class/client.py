"""A user's lock class as a client: return values become outcomes, exceptions are unknown."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.clusters.systems.polling import HELD, Poller
from holdfast.clusters.systems.user_class.queries import asked_of
from holdfast.clusters.systems.user_class.terms import (
    QUERIES,
    TermsOf,
    abilities_of,
    parameters_of,
)
from holdfast.harness.core.clock import MILLISECOND, SECOND, now_ns
from holdfast.harness.core.operations import (
    CHANGED,
    GENERATION,
    PLAIN,
    Answer,
    Grant,
    Mode,
    Op,
    Status,
    Terms,
)
from holdfast.harness.core.ports import ClientSetup, Queried

POLL_NS = (5 * MILLISECOND, 25 * MILLISECOND)


class OwnClient:
    """One object of the user's class, called in its own thread."""

    blocking = True

    def __init__(self, made: type[Any], setup: ClientSetup) -> None:
        self._made = made
        self._setup = setup
        self._lock: Any = None
        self._poller = Poller(setup, "own polls", POLL_NS, errors_end=True)
        self._terms = TermsOf()
        listed = abilities_of(made)
        self.reports = tuple(op for name, op in QUERIES.items() if name in listed)
        self.conditional = "condition" in listed
        self.most_permits = int(getattr(made, "most_permits", 0))

    def open(self) -> None:
        """Create the object. An error ends the run: nothing can be tested."""
        self._lock = made_with(self._made, self._setup, lambda: now_ns() / SECOND)

    def acquire(self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode) -> Answer:
        """Call until it is granted or the wait is over; once if the class itself waits."""
        asked = {"attempt": attempt, "ttl_ns": ttl_ns, "wait_ns": wait_ns}
        return self.acquire_on(lock, **asked, terms=PLAIN)

    def acquire_on(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, terms: Terms
    ) -> Answer:
        """The same on terms, those that `acquire` takes by name."""
        self._terms.asked(attempt, terms)
        more = self._terms.taken(self._lock.acquire, attempt)
        ask = partial(self._lock.acquire, lock, str(attempt), ttl_ns / SECOND, **more)
        if getattr(self._made, "waits", False):
            if "waiting" in parameters_of(self._lock.acquire):
                ask = partial(ask, waiting=partial(self._waits, lock, attempt))
            # The timeout is the fourth argument, wherever the terms are.
            wait_s = None if wait_ns < 0 else wait_ns / SECOND
            return granted(ask(wait_s), ttl_ns)
        return self._poller.until(lock, attempt, wait_ns, lambda: granted(ask(), ttl_ns))

    def _waits(self, lock: str, attempt: int, place: int = -1) -> None:
        """The class reports that an attempt waits. place: how many are before it, -1: unknown."""
        self._setup.tell(Op.WAITING, attempt=attempt, lock=lock, res=place)

    def query(self, lock: str, *, attempt: int) -> Queried:
        """What its `holder`, `place` and `length` answer, from another thread than its acquires."""
        return asked_of(self._lock, self.reports, lock, attempt)

    def check(self, grant: Grant) -> Answer:
        """Whether its `check` says that the hold is in force."""
        return in_force(self._lock.check(grant.lock, str(grant.attempt)))

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Renew the lease; a class without `renew` cannot, and reports that."""
        renew = getattr(self._lock, "renew", None)
        if renew is None:
            return Answer(outcome=Status.FAIL, error="this lock has no renew")
        more = self._terms.taken(renew, grant.attempt)
        done = renew(grant.lock, str(grant.attempt), ttl_ns / SECOND, **more)
        return renewed(done, ttl_ns)

    def release(self, grant: Grant) -> Answer:
        """Release it."""
        more = self._terms.taken(self._lock.release, grant.attempt)
        done = self._lock.release(grant.lock, str(grant.attempt), **more)
        if done:
            self._terms.over(grant.attempt)
        return Answer(outcome=Status.OK if done else Status.NOT_OWNER)

    def close(self) -> None:
        """Close the object if it has `close`."""
        close = getattr(self._lock, "close", None)
        if close is not None:
            close()


def renewed(told: object, ttl_ns: int) -> Answer:
    """True: for the lease asked for; a number that is no bool: for that many seconds."""
    if isinstance(told, int | float) and not isinstance(told, bool) and told > 0:
        return Answer(outcome=Status.OK, ttl_ns=int(told * SECOND))
    return Answer(outcome=Status.OK if told else Status.NOT_OWNER, ttl_ns=ttl_ns)


def in_force(told: object) -> Answer:
    """True, False, or None where it is not known."""
    if told is None:
        return Answer(outcome=Status.INFO, error="check returned None")
    return Answer(outcome=Status.OK if told else Status.FAIL)


def granted(told: object, ttl_ns: int) -> Answer:
    """True or a token is a grant, False and None are not, nor is "changed", of a condition that
    does not hold. Anything else is unknown."""
    if told == CHANGED:
        return Answer(outcome=Status.FAIL, error=f"{CHANGED}: its newest token is another")
    if told is True:
        return Answer(outcome=Status.OK, ttl_ns=ttl_ns)
    if told is False or told is None:
        return HELD
    if isinstance(told, int):
        return Answer(outcome=Status.OK, token=told, ttl_ns=ttl_ns)
    return Answer(outcome=Status.INFO, error=f"acquire returned a {type(told).__name__}")


def made_with(made: type[Any], setup: ClientSetup, now: Callable[[], float]) -> Any:
    """An object of the user's class, with those of these that its constructor takes by name: a
    clock in seconds, the client's name, number and address, and all clients."""
    options = {**getattr(made, "options", {}), **setup.options}
    node = setup.name.partition(".")[0]
    known = {
        "now": now,
        "name": node,
        "index": (setup.process - 1) % GENERATION,
        "address": dict(setup.clients).get(node, ""),
        "clients": list(setup.clients),
    }
    taken = parameters_of(made)
    return made(
        list(setup.servers), options, **{name: known[name] for name in known if name in taken}
    )


def takes_clock(made: type[object]) -> bool:
    """Whether the class wants a clock from us: its constructor has a parameter `now`."""
    return "now" in parameters_of(made)
