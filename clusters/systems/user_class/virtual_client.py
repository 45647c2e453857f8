"""A user's lock class in the simulator: called without a thread, between two events.

What it calls of the host (a clock, randomness, a socket, a file, a thread) is refused and becomes
an unknown outcome with that reason; `refusal` finds it before a run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from holdfast.clusters.backends.sim.forbidden_calls import ForbiddenCall, watched
from holdfast.clusters.systems.polling import Poller
from holdfast.clusters.systems.user_class.client import (
    POLL_NS,
    granted,
    in_force,
    made_with,
    renewed,
    takes_clock,
)
from holdfast.clusters.systems.user_class.queries import asked_of
from holdfast.clusters.systems.user_class.terms import QUERIES, TermsOf, abilities_of
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import PLAIN, Answer, Grant, Mode, Status, Terms
from holdfast.harness.core.ports import ClientSetup, Queried


class VirtualOwnClient:
    """One object of the user's class, on virtual time."""

    def __init__(self, made: type[object], setup: ClientSetup) -> None:
        self._made = made
        self._setup = setup
        self._lock: Any = None
        assert setup.clock is not None
        self._clock = setup.clock
        self._poller = Poller(setup, "own polls", POLL_NS, errors_end=True)
        self._terms = TermsOf()
        listed = abilities_of(made)
        self.reports = tuple(op for name, op in QUERIES.items() if name in listed)
        self.conditional = "condition" in listed
        self.most_permits = int(getattr(made, "most_permits", 0))

    def _now(self) -> float:
        """The same for all clients: the state that they share has one clock."""
        return self._clock() / SECOND

    async def open(self) -> None:
        """Make the object. What that raises ends the run: nothing can be tested."""
        self._lock = _inside(partial(made_with, self._made, self._setup, self._now))

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        """Ask until it is granted or the wait is over."""
        asked = {"attempt": attempt, "ttl_ns": ttl_ns, "wait_ns": wait_ns}
        return await self.acquire_on(lock, **asked, terms=PLAIN)

    async def acquire_on(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, terms: Terms
    ) -> Answer:
        """The same on terms, those that `acquire` takes by name."""
        self._terms.asked(attempt, terms)
        more = self._terms.taken(self._lock.acquire, attempt)
        ask = partial(self._lock.acquire, lock, str(attempt), ttl_ns / SECOND, **more)

        async def poll() -> Answer:
            return granted(_inside(ask), ttl_ns)

        return await self._poller.until_async(lock, attempt, wait_ns, poll)

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Ask for the lease to run on; a class without `renew` cannot, and says so."""
        renew = getattr(self._lock, "renew", None)
        if renew is None:
            return Answer(outcome=Status.FAIL, error="this lock has no renew")
        more = self._terms.taken(renew, grant.attempt)
        done = _inside(partial(renew, grant.lock, str(grant.attempt), ttl_ns / SECOND, **more))
        return renewed(done, ttl_ns)

    async def query(self, lock: str, *, attempt: int) -> Queried:
        """What its `holder`, `place` and `length` answer."""
        return cast(Queried, _inside(partial(asked_of, self._lock, self.reports, lock, attempt)))

    async def check(self, grant: Grant) -> Answer:
        """Whether its `check` says that the hold is in force."""
        return in_force(_inside(partial(self._lock.check, grant.lock, str(grant.attempt))))

    async def release(self, grant: Grant) -> Answer:
        """Give it back."""
        more = self._terms.taken(self._lock.release, grant.attempt)
        done = _inside(partial(self._lock.release, grant.lock, str(grant.attempt), **more))
        if done:
            self._terms.over(grant.attempt)
        return Answer(outcome=Status.OK if done else Status.NOT_OWNER)

    async def close(self) -> None:
        """Close the object, where it can be closed."""
        close = getattr(self._lock, "close", None)
        if close is not None:
            _inside(close)


def _inside(call: Callable[[], object]) -> object:
    """The result of a call of the user's code. ForbiddenCall if it used the host, even if the code
    caught that."""
    with watched(True, refuse=True) as breaches:
        result = call()
    if breaches:
        raise ForbiddenCall(next(iter(breaches)))
    return result


def refusal(made: type[object]) -> str:
    """Why a class cannot run in the simulator, "" if nothing is known against it.

    Tries one acquire, renewal and release of an object of it, in which no call of the host gets
    through.
    """
    if getattr(made, "server", None) is not None:
        return "it starts servers, which are processes of the host"
    if getattr(made, "waits", False):
        return "its acquire waits by itself (`waits = True`), which stops virtual time"
    setup = ClientSetup(
        process=1,
        name="trial",
        servers=(),
        lease_ns=SECOND,
        options={},
        tell=lambda *_, **__: None,
        clock=lambda: 0,
    )
    try:
        with watched(True, refuse=True) as breaches:
            lock = made_with(made, setup, lambda: 0.0)
            lock.acquire("trial", "1", 1.0)
            if hasattr(lock, "renew"):
                lock.renew("trial", "1", 1.0)
            lock.release("trial", "1")
    except Exception as error:
        if not breaches:
            return f"a trial acquire, renewal and release raised {type(error).__name__}: {error}"
    hint = "" if takes_clock(made) else " (a clock is passed to a constructor with parameter `now`)"
    return f"it calls {next(iter(breaches))}{hint}" if breaches else ""
