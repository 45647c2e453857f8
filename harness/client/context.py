"""The client API for workloads: guarded calls, recorded at call and return.

The same Context serves a worker process and the simulator: event loop with clock, recorder and
random generator are passed in. Standard library only.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Any, Protocol, cast, runtime_checkable

from holdfast.harness.client import resource_replies
from holdfast.harness.client.grants import Claims
from holdfast.harness.client.guard import Guard, unforeseen
from holdfast.harness.client.resource_replies import Resource
from holdfast.harness.core.clock import SECOND, now_ns
from holdfast.harness.core.operations import (
    CANCELLED,
    NO_TOKEN,
    PLAIN,
    Answer,
    Grant,
    Op,
    Stamped,
    Status,
    Terms,
    attempt_id,
    carried,
    spent,
)
from holdfast.harness.core.ports import (
    CALL,
    AbleLockClient,
    BlockingLockClient,
    LockClient,
    Queried,
    WiredLockClient,
)
from holdfast.harness.core.waiting import cancel_until_done
from holdfast.harness.recording.phase import GO
from holdfast.harness.recording.recorder import Rows, Stamps, Unrecorded

CLOSE_S = 5
GUARD_NS = 10 * SECOND
"""A call that exceeds its own bound by this time is given up here and judged as a hung request."""
QUERIES = (Op.HOLDER, Op.PLACE, Op.LENGTH)
UNREPORTED = Queried(outcome=Status.FAIL)
"""What this lock does not report."""
NOBODY: AbstractContextManager[None] = nullcontext()


@dataclass(frozen=True, kw_only=True, slots=True)
class Dependencies:
    """Dependencies of a Context. `now` is the clock of the run, ns; without `stamps` only the times
    of call and return are known. `stall`: stops all threads of the process for a time, ns."""

    lock_client: LockClient | BlockingLockClient
    resource: Resource
    recorder: Rows
    process: int
    lease_ns: int
    rng: random.Random
    options: Mapping[str, str]
    phase: Callable[[], int]
    die: Callable[[], None]
    now: Callable[[], int] = now_ns
    stamps: Stamps | None = None
    stall: Callable[[int], None] | None = None


@runtime_checkable
class PartlyQueried(Protocol):
    """A QueryLockClient that does not answer everything.

    reports      the queries that it answers: HOLDER, PLACE, LENGTH
    conditional  whether its acquires take a condition
    """

    reports: Collection[Op]
    conditional: bool


@runtime_checkable
class FewPermits(Protocol):
    """A client of semaphores of which one acquire can ask for a bounded number of permits only.

    most_permits  that number; 0: any
    """

    most_permits: int


class Context:
    """One logical client. Every method records its call; none raises for errors of a service.

    locks     names of the locks of the run
    lease_ns  the lease that acquires request
    rng       this client's own random generator
    now_ns    the clock of the run
    guard     bounds every call in flight
    conditional  whether its acquires take a condition
    most_permits  permits of a semaphore that one acquire can ask for, 0: any number
    claims    its grants and loss notifications, with their callbacks
    thread    makes the calls of a blocking client; None for a client of coroutines
    """

    def __init__(self, parts: Dependencies, locks: tuple[str, ...]) -> None:
        self.locks = locks
        self.lease_ns = parts.lease_ns
        self.rng = parts.rng
        self.options = parts.options
        self.process = parts.process
        self.now_ns = parts.now
        self._parts = parts
        # A workload is run on systems with its abilities only, as the plan's resolution checks.
        self._able = cast(AbleLockClient, parts.lock_client)
        self._recorder: Rows = parts.recorder
        self._attempts = 0
        self.claims = Claims()
        self.guard = Guard()
        client = parts.lock_client
        self._wire = client.wire if isinstance(client, WiredLockClient) else ""
        blocking = isinstance(client, BlockingLockClient) and client.blocking
        self.thread = ThreadPoolExecutor(1, f"client-{parts.process}") if blocking else None
        # A query is asked while an acquire waits, which keeps the client's own thread.
        self._asking = ThreadPoolExecutor(1, f"queries-{parts.process}") if blocking else None
        partly = client if isinstance(client, PartlyQueried) else None
        self._reports = QUERIES if partly is None else partly.reports
        self.conditional = partly is None or partly.conditional
        self.most_permits = client.most_permits if isinstance(client, FewPermits) else 0

    @property
    def running(self) -> bool:
        """Whether new acquires may begin: the run has started and has not begun to end."""
        return self._parts.phase() == GO

    def reached(self, phase: int) -> bool:
        """Whether the run is at this phase of `harness.recording.phase`, or further."""
        return self._parts.phase() >= phase

    def die(self) -> None:
        """Kill this process while it holds locks; the end of its claims is recorded."""
        self.tell(Op.CLOSED, attempt=0, lock="", text="the owner died while holding")
        self._parts.die()

    def disown(self) -> object:
        """In a forked child: the lock client; nothing is recorded from here on."""
        self._recorder = Unrecorded()
        return self._able

    async def open(self) -> None:
        """Connect the lock client. Its errors end the worker: nothing can be tested."""
        await self._run(self._parts.lock_client.open)

    async def close(self) -> None:
        """Close the lock client; a service that no longer responds is ignored."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_S):
                await self._run(self._parts.lock_client.close)
        for thread in (self.thread, self._asking):
            if thread is not None:
                thread.shutdown(wait=False, cancel_futures=True)

    async def acquire(
        self,
        lock: str,
        *,
        wait_ns: int,
        ttl_ns: int | None = None,
        terms: Terms = PLAIN,
        op: Op = Op.ACQUIRE,
        due_ns: int = 0,
    ) -> Grant | None:
        """Acquire a lock, waiting at most wait_ns (-1: no bound). None: not granted.

        Terms other than the default need a client with the ability (`harness.core.ports`); their
        metadata becomes a text that names the attempt. due_ns: its due time, if it has one."""
        self._attempts += 1
        attempt = attempt_id(self.process, self._attempts)
        ttl = self.lease_ns if ttl_ns is None else ttl_ns
        self.claims.asked(attempt)
        edges = {"attempt": attempt, "arg": ttl, "aux": wait_ns, "mode": int(terms.mode)}
        edges["op"] = terms.packed()
        edges["late"] = max(0, self.now_ns() - due_ns) // 1000 if due_ns else 0
        asked = {"attempt": attempt, "ttl_ns": ttl, "wait_ns": wait_ns}
        if terms.metadata:
            terms = replace(terms, metadata=carried(attempt))
        answer = await self._call(
            op,
            lock,
            edges,
            lambda: (
                self._able.acquire(lock, **asked, mode=terms.mode)
                if terms is PLAIN or terms == PLAIN
                else self._able.acquire_on(lock, **asked, terms=terms)
            ),
            guard_ns=max(wait_ns, 0) + GUARD_NS,
        )
        if answer.outcome is not Status.OK and answer.error != CANCELLED:
            self.claims.over(attempt)
            return None
        grant = Grant(
            lock=lock,
            attempt=attempt,
            token=answer.token,
            ttl_ns=answer.ttl_ns,
            granted_at_ns=self.now_ns(),
        )
        if answer.error == CANCELLED:
            # The cancelled call's lock is no longer wanted: release what may have been granted.
            await self.release(grant)
            return None
        self.claims.acquired(grant)
        return grant

    async def try_acquire(
        self, lock: str, *, ttl_ns: int | None = None, terms: Terms = PLAIN, due_ns: int = 0
    ) -> Grant | None:
        """Try to acquire a lock once, without waiting."""
        asked: dict[str, Any] = {"ttl_ns": ttl_ns, "terms": terms, "due_ns": due_ns}
        return await self.acquire(lock, wait_ns=0, op=Op.TRY, **asked)

    async def holder(self, lock: str) -> int | None:
        """The holder's token, NO_TOKEN if there is no holder, None without a response."""
        answer = await self._query(Op.HOLDER, lock, 0)
        return answer.token if answer.outcome is Status.OK else None

    async def place(self, lock: str) -> int | None:
        """Number of waiters ahead of this client's latest attempt, -1 if it does not wait, None: no
        response. Called while an acquire of the client is in flight."""
        answer = await self._query(Op.PLACE, lock, attempt_id(self.process, self._attempts))
        return answer.place if answer.outcome is Status.OK else None

    async def length(self, lock: str) -> int | None:
        """Number of waiters for a lock, None: no response."""
        answer = await self._query(Op.LENGTH, lock, 0)
        return answer.length if answer.outcome is Status.OK and answer.length >= 0 else None

    async def check(self, grant: Grant) -> bool | None:
        """Whether a hold, past or present, is in force; None: no response."""
        edges = {"attempt": grant.attempt, "token": grant.token}
        answer = await self._call(Op.CHECK, grant.lock, edges, partial(self._able.check, grant))
        return {Status.OK: True, Status.FAIL: False}.get(answer.outcome)

    async def force_unlock(self, lock: str, *, token: int) -> bool:
        """As an operator, end the hold that has a token. False: not ended, or unknown."""
        call = partial(self._able.force, lock, token=token)
        answer = await self._call(Op.FORCE_UNLOCK, lock, {"token": token}, call)
        return answer.outcome is Status.OK

    async def _query(self, op: Op, lock: str, attempt: int) -> Queried:
        if op not in self._reports:
            return self._said(op, self._invoked(op, lock, attempt), UNREPORTED)
        if self._asking is None:
            row = self._invoked(op, lock, attempt)
            return self._said(op, row, await self._able.query(lock, attempt=attempt))

        def asked() -> Queried:
            row = self._invoked(op, lock, attempt)
            answer = cast(Queried, self._able.query(lock, attempt=attempt))
            return self._said(op, row, answer)

        return await asyncio.get_running_loop().run_in_executor(self._asking, asked)

    def _invoked(self, op: Op, lock: str, attempt: int) -> int:
        key = self._recorder.intern(lock)
        return self._recorder.invoke(op, self.process, key, attempt=attempt)

    def _said(self, op: Op, row: int, said: Queried) -> Queried:
        """The answer to a query, recorded."""
        outcome = said.outcome
        err, res, token, times = said.error, said.place, NO_TOKEN, 0
        if op is Op.LENGTH:
            res = said.length
            unsaid = said.length < 0 and outcome is Status.OK
            outcome = Status.INFO if unsaid else outcome
        if op is Op.HOLDER:
            err, times = err or said.metadata, spent(said.held_ns, said.left_ns)
            res, token = said.renewals, said.token
        at = self._recorder.intern(err)
        self._recorder.complete(row, outcome, err=at, res=res, token=token, spent=times)
        return said

    async def renew(self, grant: Grant, *, ttl_ns: int | None = None) -> bool:
        """Renew the lease. False: not renewed, or unknown."""
        ttl = self.lease_ns if ttl_ns is None else ttl_ns
        answer = await self._call(
            Op.RENEW,
            grant.lock,
            {"attempt": grant.attempt, "token": grant.token, "arg": ttl},
            lambda: self._parts.lock_client.renew(grant, ttl_ns=ttl),
        )
        return answer.outcome is Status.OK

    async def release(self, grant: Grant) -> bool:
        """Release the lock. From its sending on this client no longer claims to hold."""
        return (await self._release(grant)).outcome is Status.OK

    async def release_reentrant(self, grant: Grant) -> bool | None:
        """Release one entry. Whether the lock is now fully released; None: not known."""
        answer = await self._release(grant)
        counted = answer.outcome is Status.OK and answer.left >= 0
        return answer.left == 0 if counted else None

    async def _release(self, grant: Grant) -> Answer:
        answer = await self._call(
            Op.RELEASE,
            grant.lock,
            {"attempt": grant.attempt, "token": grant.token},
            lambda: self._parts.lock_client.release(grant),
        )
        if answer.error == CANCELLED:
            return await self._release(grant)
        self.claims.over(grant.attempt)
        return answer

    async def read(self, grant: Grant, *, key: str = "") -> int:
        """The version of a key of the resource, by default the lock's; -1: rejected or unknown."""
        return await self._ask(grant, Op.READ, 0, key=key)

    async def write(self, grant: Grant, *, base: int = -1, repeats: int = 0, key: str = "") -> int:
        """Write to the resource, based on version `base` (-1: blind); -1 if not accepted.

        It is sent `repeats` more times with the same identity, whatever the response. repeats ONCE:
        it is the one command of its key, from any client, if the resource supports that.
        """
        return await self._ask(grant, Op.WRITE, base, repeats, key)

    def lost(self, grant: Grant) -> bool:
        """Whether this client was notified that it no longer holds."""
        return self.claims.is_lost(grant.attempt)

    def tell(
        self,
        op: Op,
        *,
        attempt: int,
        lock: str,
        res: int = 0,
        text: str = "",
        token: int = NO_TOKEN,
        arg: int = 0,
    ) -> None:
        """Record a notification to the client. Safe to call from any thread."""
        recorder = self._recorder
        if op in (Op.LOST, Op.CLOSED):
            res = recorder.intern(text)
        key = recorder.intern(lock)
        row = recorder.invoke(op, self.process, key, attempt=attempt, token=token, arg=arg)
        recorder.complete(row, Status.OK, res=res)
        if op is Op.LOST:
            self.claims.lost(attempt)
        elif op is Op.CLOSED:
            self.claims.all_lost()

    @contextlib.asynccontextmanager
    async def renewing(
        self, grant: Grant, *, every_ns: Sequence[int] = (), ttls_ns: Sequence[int] = ()
    ) -> AsyncIterator[None]:
        """Renew every third of the lease, or after each of `every_ns` in turn, immediately the
        first time, while the body runs; for the lease, or for each of `ttls_ns` in turn.

        Immediately, because the beginning of the lease of a grant that waited in a queue is
        unknown.
        """
        task = asyncio.ensure_future(self._renew(grant, cycle(every_ns), cycle(ttls_ns)))
        try:
            yield
        finally:
            await cancel_until_done(task)

    async def _renew(self, grant: Grant, every: Iterator[int], ttls: Iterator[int]) -> None:
        task = asyncio.current_task()
        assert task is not None, "renewals are a task of their own"
        # A renewal whose response meets the cancellation may return as if there were none.
        while not self.lost(grant) and not task.cancelling():
            await self.renew(grant, ttl_ns=next(ttls, None))
            await self.sleep(next(every, self.lease_ns // 3))

    async def sleep(self, span_ns: int) -> None:
        """Let time pass: the client thinks, works or waits between two calls."""
        await asyncio.sleep(span_ns / SECOND)

    async def stall(self, span_ns: int) -> None:
        """Let time pass in which nothing of the process runs, threads of libraries neither. In the
        simulator, which has no threads, as `sleep`."""
        if self._parts.stall is None:
            await self.sleep(span_ns)
        else:
            self._parts.stall(span_ns)

    async def _ask(self, grant: Grant, op: Op, base: int, repeats: int = 0, key: str = "") -> int:
        recorder, where = self._recorder, key or grant.lock
        at = recorder.intern(where)
        attempt, token = grant.attempt, grant.token
        row = recorder.invoke(
            op, self.process, at, attempt=attempt, token=token, arg=base, aux=repeats
        )
        name, resource = attempt_id(self.process, row), self._parts.resource
        with self._watched(CALL) as stamped:
            if op is Op.READ:
                reply = await resource.read(where, op=name, attempt=attempt, token=token)
            else:
                sent = {"op": name, "attempt": attempt, "token": token, "base": base}
                reply = await resource_replies.write(resource, where, repeats, **sent)
            err = recorder.intern(reply.error)
            recorder.complete(row, reply.outcome, res=reply.version, err=err, stamped=stamped)
        return reply.version if reply.outcome is Status.OK else -1

    async def _call(
        self,
        op: Op,
        lock: str,
        edges: Mapping[str, int],
        call: Callable[[], Awaitable[Answer] | Answer],
        guard_ns: int = GUARD_NS,
    ) -> Answer:
        """One recorded call. The row is invoked and completed where the call itself runs."""
        recorder, key = self._recorder, self._recorder.intern(lock)
        if self.thread is not None:
            invoke = partial(recorder.invoke, op, self.process, key, **edges)
            work = asyncio.get_running_loop().run_in_executor(
                self.thread, self._blocking_call, invoke, call
            )
            return await self._guarded(lambda: asyncio.shield(work), None, guard_ns)
        row = recorder.invoke(op, self.process, key, **edges)
        with self._watched(self._wire) as stamped:
            return await self._guarded(call, row, guard_ns, stamped)

    def _watched(self, wire: str) -> AbstractContextManager[Stamped | None]:
        """The kernel's timestamps of the call in the body, if they are available."""
        stamps = self._parts.stamps
        return NOBODY if stamps is None or not wire else stamps.watch(wire)

    async def _guarded(
        self,
        call: Callable[[], Awaitable[Answer] | Answer],
        row: int | None,
        guard_ns: int,
        stamped: Stamped | None = None,
    ) -> Answer:
        watch = self.guard.enter(guard_ns / SECOND)
        try:
            called = call()
            answer = called if isinstance(called, Answer) else await called
        except asyncio.CancelledError:
            if not watch.gave_up():
                # The caller no longer wants the result. That is not a hung request.
                no_more = Answer(outcome=Status.INFO, error="cancelled by its caller")
                if row is not None:
                    self._complete(row, no_more)
                raise
            answer = Answer(outcome=Status.INFO, error=watch.why)
        except Exception as error:
            answer = unforeseen(error)
        finally:
            self.guard.leave(watch)
        if row is not None:
            self._complete(row, answer, stamped)
        return answer

    def _blocking_call(
        self, invoke: Callable[[], int], call: Callable[[], Awaitable[Answer] | Answer]
    ) -> Answer:
        row = invoke()
        with self._watched(self._wire) as stamped:
            try:
                answer = call()
                assert isinstance(answer, Answer), "a blocking adapter answers without await"
            except Exception as error:
                answer = unforeseen(error)
            self._complete(row, answer, stamped)
        return answer

    def _complete(self, row: int, answer: Answer, stamped: Stamped | None = None) -> None:
        err = self._recorder.intern(answer.error)
        token = answer.token if answer.token != NO_TOKEN else None
        res = answer.ttl_ns if answer.left < 0 else answer.left + 1
        columns = {"res": res, "err": err, "spent": answer.spent}
        self._recorder.complete(row, answer.outcome, token=token, **columns, stamped=stamped)

    async def _run(self, call: Callable[[], Awaitable[None] | None]) -> None:
        """Open or close, in the client's own thread if it has one."""
        if self.thread is not None:
            await asyncio.get_running_loop().run_in_executor(self.thread, call)
            return
        if (waiting := call()) is not None:
            await waiting
