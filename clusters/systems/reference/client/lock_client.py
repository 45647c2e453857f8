"""The client of the reference service, which workers load.

A call keeps its request number in every retry, so a retry never acts twice. A renewal or a release,
and every single try, has its own deadline: a second, or a third of the lease if that is longer. A
wait that times out is cancelled at the service; only if even that gets no response, the outcome is
unknown. A queued grant is returned with what is certainly left of its lease, counted from when the
client last queried its wait; if that is less than half of it, it is renewed first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from holdfast.clusters.systems.reference.client.codec import described, meant, said
from holdfast.clusters.systems.reference.client.local_state import Held, Wait
from holdfast.clusters.systems.reference.client.session import UNANSWERED, Talk
from holdfast.clusters.systems.reference.locks import sequencers
from holdfast.clusters.systems.reference.options import read
from holdfast.clusters.systems.reference.service.request_validation import MAX_NS
from holdfast.clusters.systems.reference.wire.frames import Frame
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import PLAIN, Answer, Grant, Mode, Op, Status, Terms, spent
from holdfast.harness.core.ports import CLIENT, ClientSetup, Queried
from holdfast.harness.core.seeds import stream

ASK_S = 0.6
"""A hold or a wait without a message for this time is queried."""
CANCEL_S = 0.5
"""Time to cancel a wait after its timeout."""
FOREVER_S = 365 * 24 * 3600.0


class ReferenceClient:
    """A LockClient; `client` makes one."""

    wire = CLIENT

    def __init__(self, setup: ClientSetup) -> None:
        self._setup = setup
        self._session_ns = read(setup.options)[0].session_ns
        self._owner = self._setup.options.get("owner") or setup.name
        self._call_s = max(1.0, setup.lease_ns / 3e9)
        self._rng = stream(setup.seed, "reference client", setup.process)
        self._holds: dict[int, Held] = {}
        self._waits: dict[int, Wait] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._looking: asyncio.TimerHandle | None = None
        self._asking = False
        self._talk = Talk(
            servers=setup.servers,
            rng=self._rng,
            session_ns=self._session_ns,
            on_event=self._on_event,
            on_lost=self._on_session_lost,
        )

    async def open(self) -> None:
        """Starts to search for the leader; an unavailable cluster is found later."""
        if self._session_ns:
            self._background(self._beat())
        await self._talk.session(self._until(1.0))

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        """As `LockClient`."""
        terms = PLAIN if mode is PLAIN.mode else Terms(mode=mode)
        asked = {"attempt": attempt, "ttl_ns": ttl_ns, "wait_ns": wait_ns}
        return await self.acquire_on(lock, **asked, terms=terms)

    async def acquire_on(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, terms: Terms
    ) -> Answer:
        """As `TermsLockClient`."""
        seq = self._talk.begin()
        wait = Wait(
            lock=lock,
            attempt=attempt,
            ttl_ns=MAX_NS - 1 if self._session_ns else ttl_ns,
            wait_ns=min(wait_ns, MAX_NS - 1),
            terms=said(terms),
            decided=asyncio.get_running_loop().create_future(),
            asked_s=self._talk.time(),
            heard_s=self._talk.time(),
        )
        self._waits[seq] = wait
        try:
            answer = await self._acquire(seq, wait)
        except asyncio.CancelledError:
            self._background(self._give_up(seq))
            raise
        finally:
            del self._waits[seq]
        if self._session_ns and answer.outcome is Status.INFO:
            self._background(self._give_up(seq))
        else:
            self._talk.finish(seq)
        return answer

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """As `LockClient`."""
        ttl_ns = MAX_NS - 1 if self._session_ns else ttl_ns
        answer = await self._call(
            "renew", lock=grant.lock, attempt=grant.attempt, token=grant.token, ttl_ns=ttl_ns
        )
        if answer["is"] == "not-holder":
            self._lost(grant.attempt, str(answer["reason"]))
        elif answer["is"] == "renewed" and grant.attempt in self._holds:
            self._holds[grant.attempt].heard_s = self._talk.time()
        return meant(answer)

    async def release(self, grant: Grant) -> Answer:
        """As `LockClient`. From here on the client no longer believes that it holds."""
        self._holds.pop(grant.attempt, None)
        named = {"lock": grant.lock, "attempt": grant.attempt, "token": grant.token}
        answer = meant(await self._call("release", **named))
        if self._session_ns and answer.outcome in (Status.INFO, Status.FAIL):
            self._background(self._insist("release", **named))
            answer = replace(answer, outcome=Status.INFO)
        return answer

    async def query(self, lock: str, *, attempt: int) -> Queried:
        """As `QueryLockClient`; answered through the log, not from a leader's memory."""
        until_s = self._until(self._call_s)
        answer = await self._talk.plain("holder", until_s=until_s, lock=lock, attempt=attempt)
        return described(answer, leases=not self._session_ns)

    async def check(self, grant: Grant) -> Answer:
        """As `SequencerLockClient`; sends the sequencer of the hold."""
        shown = sequencers.written(grant.lock, grant.token)
        until_s = self._until(self._call_s)
        return meant(await self._talk.plain("check", until_s=until_s, sequencer=shown))

    async def force(self, lock: str, *, token: int) -> Answer:
        """As `OperatorLockClient`; a missing hold may have been ended by this request itself."""
        until_s = self._until(self._call_s)
        return meant(await self._talk.plain("force", until_s=until_s, lock=lock, token=token))

    async def close(self) -> None:
        """Closes the connections; leases run on, a session with heartbeats is ended."""
        if self._looking is not None:
            self._looking.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session_ns:
            session = await self._talk.session(self._until(CANCEL_S))
            await self._talk.plain("close", until_s=self._until(CANCEL_S), session=session)
        self._talk.close()

    # One acquire

    async def _acquire(self, seq: int, wait: Wait) -> Answer:
        limit_s = {0: self._call_s, -1: FOREVER_S}.get(wait.wait_ns, wait.wait_ns / 1e9)
        until_s = self._until(limit_s)
        answer = await self._claim(seq, wait, until_s)
        at_once = answer["is"] == "granted"
        if answer["is"] == "queued":
            self._tell_waiting(wait, answer)
            loop = asyncio.get_running_loop()
            left_s = until_s - loop.time()
            timer = loop.call_later(max(0.0, left_s), self._decide, seq, UNANSWERED)
            try:
                answer = await wait.decided
            finally:
                timer.cancel()
        if answer["is"] == "unanswered":
            answer = await self._cancel(seq)
        if answer["is"] != "granted":
            return meant(answer)
        token, ttl_ns = answer["token"], self._session_ns or wait.ttl_ns
        passed_ns = 0 if at_once else round((self._talk.time() - wait.asked_s) * SECOND)
        if 2 * passed_ns > ttl_ns:
            answer = await self._call(
                "renew", lock=wait.lock, attempt=wait.attempt, token=token, ttl_ns=wait.ttl_ns
            )
            if answer["is"] != "renewed":
                error = f"granted as {token}, then {answer['is']} before it was known"
                return Answer(outcome=Status.INFO, token=token, error=error)
            passed_ns = 0
        self._holds[wait.attempt] = Held(lock=wait.lock, token=token, heard_s=self._talk.time())
        self._look_later(ASK_S)
        if wait.read_ns >= 0:
            self._setup.tell(
                Op.ARRIVED, attempt=wait.attempt, lock=wait.lock, res=wait.read_ns, token=token
            )
        left_ns = ttl_ns if self._session_ns else ttl_ns - passed_ns
        return Answer(outcome=Status.OK, token=token, ttl_ns=left_ns, spent=wait.spent)

    async def _claim(self, seq: int, wait: Wait, until_s: float) -> Frame:
        """Requests the lock, or polls for a queued one: the same request either way."""
        asked_s = self._talk.time()
        answer = await self._talk.once(
            "acquire",
            seq=seq,
            until_s=until_s,
            lock=wait.lock,
            attempt=wait.attempt,
            ttl_ns=wait.ttl_ns,
            wait_ns=wait.wait_ns,
            owner=self._owner,
            **wait.terms,
        )
        if "commit_ns" in answer and not wait.spent:
            wait.spent = spent(answer["coord_ns"], answer["commit_ns"])
            wait.read_ns = answer.get("read_ns", -1)
        if answer["is"] == "queued":
            wait.asked_s, wait.heard_s = asked_s, self._talk.time()
            self._look_later(ASK_S)
        return answer

    async def _cancel(self, target: int) -> Frame:
        seq = self._talk.begin()
        try:
            asked: dict[str, Any] = {"about": target, "target": target, "drop": False}
            answer = await self._talk.once(
                "cancel", seq=seq, until_s=self._until(CANCEL_S), **asked
            )
        finally:
            self._talk.finish(seq)
        # That this request was never sent says nothing about the request to cancel.
        return UNANSWERED if answer["is"] == "never-sent" else answer

    async def _give_up(self, target: int) -> None:
        """Undoes an acquire whose caller no longer wants it, granted or not, if possible."""
        if self._session_ns:
            await self._insist("cancel", about=target, target=target, drop=True)
        else:
            seq = self._talk.begin()
            await self._talk.post("cancel", seq=seq, target=target, drop=True)
            self._talk.finish(seq)
        self._talk.finish(target)

    async def _insist(self, op: str, **fields: Any) -> None:
        """Retries until there is a response: in a session kept alive no lease ends a hold."""
        seq = self._talk.begin()
        try:
            await self._talk.once(op, seq=seq, until_s=self._until(FOREVER_S), **fields)
        finally:
            self._talk.finish(seq)

    # Notifications of the service, and queries of the client while it holds or waits

    def _on_event(self, event: Frame) -> None:
        match event["event"]:
            case "lost":
                self._lost(event["attempt"], str(event["reason"]))
            case "settled":
                self._decide(event["seq"], event)
            case "freed":
                self._claim_again(event["seq"])

    def _lost(self, attempt: int, reason: str) -> None:
        held = self._holds.pop(attempt, None)
        if held is not None:
            self._setup.tell(
                Op.LOST, attempt=attempt, lock=held.lock, text=reason, token=held.token
            )

    def _on_session_lost(self, session: int) -> None:
        """All its holds are lost, its waits are over. If holds are pure leases, it is only a
        name."""
        if self._session_ns:
            self._holds.clear()
            self._setup.tell(Op.CLOSED, attempt=0, lock="", text="session")
        for seq in [seq for seq in self._waits if self._talk.sent_in(seq) == session]:
            self._decide(seq, {"is": "no-session"})

    def _decide(self, seq: int, answer: Frame) -> None:
        wait = self._waits.get(seq)
        if wait is not None and not wait.decided.done():
            wait.decided.set_result(answer)

    def _claim_again(self, seq: int) -> None:
        wait = self._waits.get(seq)
        if wait is not None and not wait.decided.done():
            self._background(self._race(seq, wait))

    async def _race(self, seq: int, wait: Wait) -> None:
        answer = await self._claim(seq, wait, self._until(self._call_s))
        if answer["is"] not in ("queued", "unanswered", "never-sent"):
            self._decide(seq, answer)

    def _tell_waiting(self, wait: Wait, answer: Frame) -> None:
        if not wait.decided.done():
            place = int(answer["place"])
            self._setup.tell(Op.WAITING, attempt=wait.attempt, lock=wait.lock, res=place)

    def _look_later(self, wait_s: float) -> None:
        """Schedules the next check of its holds and waits, then at the latest."""
        if self._looking is None and not self._asking:
            self._looking = asyncio.get_running_loop().call_later(wait_s, self._look)

    def _look(self) -> None:
        """Queries its holds and waits if one of them had no message for ASK_S."""
        self._looking = None
        known: list[Held | Wait] = [*self._holds.values(), *self._waits.values()]
        if not known:
            return
        left_s = min([one.heard_s for one in known]) + ASK_S - self._talk.time()
        if left_s > 0:
            self._look_later(left_s)
        else:
            self._asking = True
            self._background(self._ask_state(known))

    async def _ask_state(self, known: list[Held | Wait]) -> None:
        """Queries its holds and waits, in case a broken connection lost notifications."""
        try:
            holds, waits = list(self._holds.items()), list(self._waits)
            asked_s = self._talk.time()
            answer = await self._talk.plain(
                "ask",
                until_s=self._until(self._call_s),
                session=await self._talk.session(self._until(self._call_s)),
                holds=[[held.lock, held.token, attempt] for attempt, held in holds],
                waits=waits,
            )
            if answer["is"] == "state":
                for (attempt, _), fate in zip(holds, answer["holds"], strict=True):
                    if fate != "held":
                        self._lost(attempt, fate)
                for seq, state in zip(waits, answer["waits"], strict=True):
                    self._on_wait_state(seq, state, asked_s)
            for one in known:
                one.heard_s = self._talk.time()
        finally:
            self._asking = False
        self._look_later(ASK_S)

    def _on_wait_state(self, seq: int, state: Frame, asked_s: float) -> None:
        wait = self._waits.get(seq)
        if wait is None or state["is"] == "unknown":
            return
        if state["is"] != "queued":
            self._decide(seq, state)
            return
        wait.asked_s = asked_s
        self._tell_waiting(wait, state)
        if state["free"]:
            self._claim_again(seq)

    async def _beat(self) -> None:
        """Keeps a session alive, three times per session lease."""
        while True:
            session = await self._talk.session(self._until(self._call_s))
            sent_s = asyncio.get_running_loop().time()
            answer = await self._talk.plain(
                "beat", until_s=self._until(self._call_s), session=session
            )
            if answer["is"] == "alive":
                self._alive(answer["ttl_ns"], sent_s, session)
            elif answer["is"] == "no-session":
                self._talk.lost_session(session)
            await asyncio.sleep(self._session_ns / 3e9)

    def _alive(self, ttl_ns: int, sent_s: float, session: int) -> None:
        """Records how long the session lives on, by the response to a heartbeat.

        The row has the present time, and the session's lease began at the latest when the heartbeat
        was sent: the time since then is subtracted. If nothing is left, as after a pause of this
        process, the response says nothing about the present."""
        left_ns = ttl_ns - round((self._talk.time() - sent_s) * SECOND)
        if left_ns > 0:
            self._setup.tell(Op.HEARTBEAT, attempt=0, lock="", res=left_ns, arg=session)

    # Helpers

    async def _call(self, op: str, **fields: Any) -> Frame:
        seq = self._talk.begin()
        try:
            return await self._talk.once(op, seq=seq, until_s=self._until(self._call_s), **fields)
        finally:
            self._talk.finish(seq)

    def _until(self, seconds: float) -> float:
        return self._talk.time() + seconds

    def _background(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
