"""Any library as a client: one lock object per attempt, one table from error to meaning.

`holdfast.clusters.libraries.client:MODULE` is the factory for the `Subject` of an adapter here:

    ERRORS                        (error, what it means for the call, or a function that tells from
                                  the error); others are INFO
    Subject(setup)                what a user sets up once
    .lock(name, attempt, lease_s, wait_s)   the library's own lock object; lease_s None: no lease.
                                  It also takes the terms that it names: mode, permits and limit
    .most_permits                 how many one acquire can ask for, if they are bounded
    .acquire(lock, wait_s)        whether it was granted, or its duration in s if the library
                                  returns it; wait_s 0: try once, None: no bound
    .renew(lock, lease_s)         whether it runs on; absent where the library has none
    .release(lock)                False if the library reports that it was not ours

All of them are coroutines if `Subject.asyncio` is true. With `--set way=with` the lock object is
entered and left as by a `with` statement, whose body runs unless it raises.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.user_class.terms import named, parameters_of
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import PLAIN, Answer, Grant, Mode, Status, Terms
from holdfast.harness.core.ports import ClientSetup

Meaning = Sequence[tuple[type[BaseException], Status | Callable[[BaseException], Status]]]
NO_RENEW = Answer(outcome=Status.FAIL, error="this library has no renewal")
UNSURE = "the acquire of this attempt has no certain outcome, so the library cannot know"
NEVER_GRANTED = Answer(outcome=Status.NOT_OWNER, error="no lock object for this attempt")


class _Subject:
    """Shared by blocking and asyncio clients: the lock objects and the meaning of results."""

    def __init__(self, adapter: str, setup: ClientSetup) -> None:
        module = f"holdfast.clusters.libraries.adapters.{adapter}"
        self._errors: Meaning = load(f"{module}:ERRORS")
        self._setup = setup
        self._made: Any = load(f"{module}:Subject")
        self._takes: Collection[str] = ()
        """names of the terms that its `lock` takes"""
        self.most_permits: int = getattr(self._made, "most_permits", 0)
        self._subject: Any = None
        self._locks: dict[int, LibraryLock] = {}
        self._unsure: set[int] = set()
        """attempts whose acquire is under way, was cancelled, or ended without a certain outcome"""
        self._under_way: set[int] = set()
        """attempts whose acquire the library is still at"""
        self._with = setup.options.get("way", "call") == "with"
        expire = setup.options.get("expire", "lease")
        self._expires = expire == "lease"
        self._no_lease_s = 0.0 if expire == "zero" else None
        self._renews_itself = setup.options.get("renew") == "library"

    def _begin(self) -> None:
        self._subject = self._made(self._setup)
        self._takes = parameters_of(self._subject.lock) & named(PLAIN).keys()

    def _lock(
        self, lock: str, attempt: int, ttl_ns: int, wait_ns: int, terms: Terms
    ) -> LibraryLock:
        lease_s = ttl_ns / SECOND if self._expires else self._no_lease_s
        more = {key: named(terms)[key] for key in self._takes}
        made = self._subject.lock(lock, str(attempt), lease_s, _wait_s(wait_ns), **more)
        self._locks[attempt] = made
        self._unsure.add(attempt)
        return made

    @contextmanager
    def _acquiring(self, attempt: int) -> Iterator[None]:
        self._under_way.add(attempt)
        try:
            yield
        finally:
            self._under_way.discard(attempt)

    def _acquired(self, attempt: int, answer: Answer) -> Answer:
        if answer.outcome is not Status.INFO:
            self._unsure.discard(attempt)
        return answer

    def _granted(self, attempt: int, told: object, ttl_ns: int) -> Answer:
        if told is False or (told is None and not self._with):
            return Answer(outcome=Status.FAIL)
        ends = self._expires and not self._renews_itself
        if isinstance(told, float):
            ttl_ns = int(told * SECOND)
        return Answer(outcome=Status.OK, ttl_ns=ttl_ns if ends else 0)

    def _answer(self, error: Exception) -> Answer:
        """What an error means, by the adapter's table."""
        means = next(
            (meaning for kind, meaning in self._errors if isinstance(error, kind)), Status.INFO
        )
        outcome = means if isinstance(means, Status) else means(error)
        return Answer(outcome=outcome, error=f"{type(error).__name__}: {error}"[:300])

    def _released(self, attempt: int, result: object) -> Answer:
        """A library that fails to release may have done a part of it, or go on by itself: no error
        of it proves that the release has no effect. That it is not the owner it says of its own
        note of a grant, which it does not have if its acquire was cut off: redis-py's `release`
        then raises without asking the server, which may keep the lock for its lease.
        """
        if isinstance(result, Exception):
            answer = self._answer(result)
        else:
            answer = Answer(outcome=Status.NOT_OWNER if result is False else Status.OK)
        if answer.outcome is Status.NOT_OWNER:
            return self._not_ours(attempt, answer)
        return replace(answer, outcome=Status.INFO) if answer.outcome is Status.FAIL else answer

    def _not_ours(self, attempt: int, answer: Answer = NEVER_GRANTED) -> Answer:
        """What the library's "not the owner" means.

        Of a lock without a lease it is the last word: the library alone could free it, its acquire
        is over, and it has nothing to free.
        """
        final = not self._expires and attempt not in self._under_way
        unsure = attempt in self._unsure and not final
        return Answer(outcome=Status.INFO, error=UNSURE) if unsure else answer

    def _renewed(self, told: object, ttl_ns: int) -> Answer:
        outcome = Status.NOT_OWNER if told is False else Status.OK
        return Answer(outcome=outcome, ttl_ns=ttl_ns if self._expires else 0)


class Blocking(_Subject):
    """A BlockingLockClient over a synchronous library."""

    blocking = True

    def open(self) -> None:
        """Sets the library up. An error ends the run: nothing can be tested."""
        self._begin()

    def acquire(self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode) -> Answer:
        """Once, for the library waits by itself."""
        asked = {"attempt": attempt, "ttl_ns": ttl_ns, "wait_ns": wait_ns}
        return self.acquire_on(lock, **asked, terms=PLAIN)

    def acquire_on(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, terms: Terms
    ) -> Answer:
        """The same on terms."""
        try:
            made = self._lock(lock, attempt, ttl_ns, wait_ns, terms)
            with self._acquiring(attempt):
                if self._with:
                    made.__enter__()
                    granted: object = True
                else:
                    granted = self._subject.acquire(made, _wait_s(wait_ns))
        except Exception as error:
            return self._acquired(attempt, self._answer(error))
        return self._acquired(attempt, self._granted(attempt, granted, ttl_ns))

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        if self._renews_itself or not hasattr(self._subject, "renew"):
            return NO_RENEW
        try:
            renewed = self._subject.renew(self._locks[grant.attempt], ttl_ns / SECOND)
        except Exception as error:
            return self._answer(error)
        return self._renewed(renewed, ttl_ns)

    def release(self, grant: Grant) -> Answer:
        held = self._locks.pop(grant.attempt, None)
        if held is None:
            return self._not_ours(grant.attempt)
        try:
            if self._with:
                held.__exit__(None, None, None)
                return Answer(outcome=Status.OK)
            kept = self._subject.release(held)
        except Exception as error:
            return self._released(grant.attempt, error)
        return self._released(grant.attempt, kept)

    def close(self) -> None:
        if hasattr(self._subject, "close"):
            self._subject.close()


class Asyncio(_Subject):
    """A LockClient over a library of coroutines; a call of it can be cancelled."""

    async def open(self) -> None:
        """Sets the library up. An error ends the run: nothing can be tested."""
        self._begin()
        if hasattr(self._subject, "open"):
            await self._subject.open()

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        """Once, for the library waits by itself."""
        asked = {"attempt": attempt, "ttl_ns": ttl_ns, "wait_ns": wait_ns}
        return await self.acquire_on(lock, **asked, terms=PLAIN)

    async def acquire_on(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, terms: Terms
    ) -> Answer:
        """The same on terms."""
        try:
            made = self._lock(lock, attempt, ttl_ns, wait_ns, terms)
            with self._acquiring(attempt):
                if self._with:
                    await made.__aenter__()
                    granted: object = True
                else:
                    granted = await self._subject.acquire(made, _wait_s(wait_ns))
        except Exception as error:
            return self._acquired(attempt, self._answer(error))
        return self._acquired(attempt, self._granted(attempt, granted, ttl_ns))

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        if self._renews_itself or not hasattr(self._subject, "renew"):
            return NO_RENEW
        try:
            renewed = await self._subject.renew(self._locks[grant.attempt], ttl_ns / SECOND)
        except Exception as error:
            return self._answer(error)
        return self._renewed(renewed, ttl_ns)

    async def release(self, grant: Grant) -> Answer:
        """The lock object is kept if this is cancelled, so that the release can be retried."""
        held = self._locks.get(grant.attempt)
        if held is None:
            return self._not_ours(grant.attempt)
        leave: Callable[[], Awaitable[object]] = (
            partial(held.__aexit__, None, None, None)
            if self._with
            else partial(self._subject.release, held)
        )
        try:
            left = await leave()
        except Exception as error:
            return self._released(grant.attempt, error)
        self._locks.pop(grant.attempt, None)
        return self._released(grant.attempt, self._with or left)

    async def close(self) -> None:
        if hasattr(self._subject, "close"):
            await self._subject.close()


def _wait_s(wait_ns: int) -> float | None:
    return None if wait_ns < 0 else wait_ns / SECOND


def __getattr__(name: str) -> Callable[[ClientSetup], Blocking | Asyncio]:
    """The factory for the adapter of that name."""
    if name.startswith("_"):
        raise AttributeError(name)

    def factory(setup: ClientSetup) -> Blocking | Asyncio:
        subject = load(f"holdfast.clusters.libraries.adapters.{name}:Subject")
        return (Asyncio if getattr(subject, "asyncio", False) else Blocking)(name, setup)

    return factory
