"""A lock client over sessions of a database: one session per attempt, which is its hold.

A hold lives as long as its session. The client polls its sessions, notifies at once when one is
gone, and closes it on its side, so that it never holds what it does not believe to hold. With
`idle=lease` the server ends a session that was silent for a lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from holdfast.harness.core.operations import NO_TOKEN, Answer, Grant, Mode, Op, Status, Terms
from holdfast.harness.core.ports import ClientSetup
from holdfast.harness.core.seeds import stream

ASK_S = 1.0
BEAT_S = 0.3
RETRY_S = (0.05, 0.15)
"""between two attempts to open a session, sampled uniformly"""
SPARE = 2
"""number of sessions kept open for the next attempts"""
LINGER_S = 1.0
"""for a library to notice that its connection was shut down"""
MILLION = 1_000_000
T = TypeVar("T")


class NoSession(Exception):
    """The server opened no session, so nothing can have taken effect."""


class Failed(Exception):
    """A query that failed; `answer` is what its error means for a lock."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.error)
        self.answer = answer


class Session(Protocol):
    """One connection, which executes one query at a time.

    broken  the connection is gone for good
    busy    a query is in flight, so that another would have to wait
    """

    @property
    def broken(self) -> bool: ...

    @property
    def busy(self) -> bool: ...

    async def ask(self, words: str, *values: object, within_s: float | None) -> Sequence[Any]:
        """The first row that a statement returns, () without one. Raises Failed.

        On timeout (None: no bound) the connection is shut down, which raises, too.
        """
        ...

    def cut(self) -> None:
        """Shuts the connection down on our side, at once and without a message."""
        ...

    async def close(self) -> None:
        """Ends the session; the server frees what it held."""
        ...


class Lock(Protocol):
    """How one kind of lock is acquired in a session, and released.

    next_token  the statement that returns a new token
    """

    next_token: str

    async def open(self, address: str, idle_ms: int) -> Session:
        """A session that the server ends after idle_ms of silence, 0 never. Raises NoSession."""
        ...

    async def prepare(self, session: Session, lock: str) -> None:
        """Creates what the lock needs before it can be requested. Raises Failed."""
        ...

    async def take(self, session: Session, lock: str, wait_ms: int, within_s: float | None) -> bool:
        """Whether it was granted. wait_ms 0 is a try, -1 has no bound. Raises Failed."""
        ...

    async def give_back(self, session: Session, lock: str) -> bool:
        """Releases it; whether it was ours. Raises Failed."""
        ...


@dataclass(slots=True)
class Held:
    """The session of an attempt, with its lock."""

    lock: str
    session: Session
    how: Lock


class DatabaseServers:
    """The servers of a database, of which one accepts sessions. Each session is opened at the first
    that does, in a newly sampled order, as libpq has it with load_balance_hosts=random: a client
    does not know which of two primaries is the former one."""

    def __init__(self, setup: ClientSetup) -> None:
        self._addresses = [address for _, address in setup.servers]
        self._rng = stream(setup.seed, "servers", setup.process)

    async def open(self, connect: Callable[[str], Awaitable[Session]]) -> Session:
        """A session. Raises NoSession with the last server's reason."""
        order = self._rng.sample(self._addresses, len(self._addresses))
        for address in order[:-1]:
            with suppress(NoSession):
                return await connect(address)
        return await connect(order[-1])


class SessionClient:
    """A LockClient over any `Lock`; `shared`: how it is acquired beside other readers."""

    def __init__(self, setup: ClientSetup, lock: Lock, shared: Lock | None = None) -> None:
        self._servers = DatabaseServers(setup)
        self._tell = setup.tell
        self._lock = lock
        self._shared = shared
        self._tokens = setup.options.get("tokens") == "sequence"
        idle = setup.options.get("idle", "lease") == "lease"
        self._idle_ms = max(1, setup.lease_ns // MILLION) if idle else 0
        self._beat_s = min(BEAT_S, setup.lease_ns / 5e9)
        self._rng = stream(setup.seed, "sessions", setup.process)
        self._held: dict[int, Held] = {}
        self._spare: list[Session] = []
        self._beating: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Nothing to wait for: an unavailable server is found later."""
        self._beating = asyncio.ensure_future(self._beat())

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        """Queues in the server until it is granted or the wait is over.

        While the server opens no session, the client retries; that certainly has no effect.
        """
        how = self._shared if mode is Mode.SHARED else self._lock
        if how is None or mode is Mode.PERMITS:
            return Answer(outcome=Status.FAIL, error="this lock is not granted in that mode")
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_ns / 1e9
        while True:
            try:
                session = await self._session()
                await how.prepare(session, lock)
                break
            except (NoSession, Failed) as error:
                pause_s = self._rng.uniform(*RETRY_S)
                if wait_ns >= 0 and loop.time() + pause_s >= until_s:
                    return Answer(outcome=Status.FAIL, error=f"no session: {error}")
                await asyncio.sleep(pause_s)
        left_ns = wait_ns if wait_ns <= 0 else max(MILLION, int((until_s - loop.time()) * 1e9))
        return await self._acquire_in(Held(lock, session, how), attempt, left_ns)

    async def acquire_on(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, terms: Terms
    ) -> Answer:
        """The same on terms, of which it has the mode."""
        asked = {"attempt": attempt, "ttl_ns": ttl_ns, "wait_ns": wait_ns}
        return await self.acquire(lock, **asked, mode=terms.mode)

    async def _acquire_in(self, held: Held, attempt: int, wait_ns: int) -> Answer:
        """Requests the lock in a prepared session, and remembers the session."""
        session = held.session
        self._held[attempt] = held
        try:
            return await self._acquire(held, attempt, wait_ns)
        except Failed as error:
            answer = error.answer
            if answer.outcome is Status.FAIL and await _rolled_back(session):
                self._keep(attempt)
            else:
                await self._drop(attempt, str(error))
            return answer
        except asyncio.CancelledError:
            await self._drop(attempt, "cancelled by its caller")
            raise

    async def _acquire(self, held: Held, attempt: int, wait_ns: int) -> Answer:
        wait_ms = -(-wait_ns // MILLION) if wait_ns >= 0 else -1
        within_s = None if wait_ns < 0 else wait_ns / 1e9 + ASK_S
        if not await held.how.take(held.session, held.lock, wait_ms, within_s):
            self._keep(attempt)
            return Answer(outcome=Status.FAIL)
        token = NO_TOKEN
        if self._tokens:
            token = int((await held.session.ask(self._lock.next_token, within_s=ASK_S))[0])
        return Answer(outcome=Status.OK, token=token)

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Any response in the session that acquired the lock proves that it is still held."""
        held = self._held.get(grant.attempt)
        if held is None:
            return Answer(outcome=Status.NOT_OWNER, error="its session is over")
        try:
            await held.session.ask("select 1", within_s=ASK_S)
        except Failed as error:
            await self._drop(grant.attempt, str(error))
            return error.answer
        return Answer(outcome=Status.OK, token=grant.token)

    async def release(self, grant: Grant) -> Answer:
        """Releases it in its session."""
        held = self._held.get(grant.attempt)
        if held is None:
            return Answer(outcome=Status.NOT_OWNER, error="its session is over")
        try:
            ours = await held.how.give_back(held.session, held.lock)
        except Failed as error:
            await self._drop(grant.attempt, str(error))
            # Its session is closed then, so even a rejection is no proof that it has no effect.
            ended = error.answer.outcome is Status.NOT_OWNER
            return error.answer if ended else Answer(outcome=Status.INFO, error=str(error))
        self._keep(grant.attempt)
        return Answer(outcome=Status.OK if ours else Status.NOT_OWNER)

    async def close(self) -> None:
        """Ends all sessions, and with them all holds."""
        if self._beating is not None:
            self._beating.cancel()
        sessions = [*(held.session for held in self._held.values()), *self._spare]
        await asyncio.gather(*(session.close() for session in sessions), return_exceptions=True)

    async def _session(self) -> Session:
        while self._spare:
            session = self._spare.pop()
            if not session.broken:
                return session
        return await self._servers.open(partial(self._lock.open, idle_ms=self._idle_ms))

    def _keep(self, attempt: int) -> None:
        """Keep the session of an attempt that no longer holds, for the next one."""
        held = self._held.pop(attempt, None)
        if held is not None and len(self._spare) < SPARE:
            self._spare.append(held.session)
        elif held is not None:
            held.session.cut()

    async def _drop(self, attempt: int, reason: str) -> None:
        """Ends the session of an attempt and notifies that its hold is over."""
        held = self._held.pop(attempt, None)
        if held is not None:
            self._tell(Op.CLOSED, attempt=attempt, lock=held.lock, text=reason)
            await held.session.close()

    async def _beat(self) -> None:
        """Polls every session in turn, and drops those that do not respond."""
        while True:
            await asyncio.gather(*(self._alive(n, held) for n, held in [*self._held.items()]))
            await asyncio.gather(*(_answers(session) for session in [*self._spare]))
            self._spare = [session for session in self._spare if not session.broken]
            await asyncio.sleep(self._beat_s)

    async def _alive(self, attempt: int, held: Held) -> None:
        if held.session.busy:
            return
        reason = await _answers(held.session)
        if reason and self._held.get(attempt) is held:
            await self._drop(attempt, reason)


async def answered(asking: asyncio.Future[T], cut: Callable[[], None], within_s: float | None) -> T:
    """The result of a query, or its error. After a timeout `cut` breaks the connection; raises
    Failed if even that does not end the query."""
    try:
        await asyncio.wait([asking], timeout=within_s)
        if not asking.done():
            cut()
            await asyncio.wait([asking], timeout=LINGER_S)
    except asyncio.CancelledError:
        cut()
        asking.add_done_callback(_heard)
        raise
    if not asking.done():
        asking.add_done_callback(_heard)
        asking.cancel()
        raise Failed(Answer(outcome=Status.INFO, error="no answer in time"))
    return asking.result()


def _heard(asking: asyncio.Future[T]) -> None:
    """Retrieves the error of a query that is no longer awaited."""
    if not asking.cancelled():
        asking.exception()


def in_one_line(error: BaseException) -> str:
    """An error's text without its line breaks."""
    return " ".join(str(error).split())


async def _answers(session: Session) -> str:
    """Why a session does not respond; empty if it does."""
    try:
        await session.ask("select 1", within_s=ASK_S)
    except Failed as error:
        return str(error)
    return ""


async def _rolled_back(session: Session) -> bool:
    """Whether a session is usable after a rejected query, with no transaction open."""
    try:
        await session.ask("rollback", within_s=ASK_S)
    except Failed:
        return False
    return True


def first(row: Sequence[object]) -> bool:
    """Whether the one value of a row is true."""
    return bool(row and row[0])
