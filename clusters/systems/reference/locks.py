"""The locks themselves: a state machine that the log drives, the same on every node.

Nothing here knows a clock: that a lease, a wait or a session is over is decided by the leader and
reaches this machine as a command of its own, conditional on what the leader saw. Every list and
table is walked in an order that the log alone determines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.clusters.systems.reference import admission, circles
from holdfast.clusters.systems.reference.tables import (
    MAX_ENDED,
    MAX_OPEN,
    MAX_SESSIONS,
    PERMITS,
    Answer,
    Beat,
    Ended,
    Event,
    Freed,
    Gone,
    Hold,
    Lock,
    Queued,
    Session,
    Settled,
    Started,
    Waiter,
)
from holdfast.clusters.systems.reference.tokens import Tokens

Handler = Callable[[int, Mapping[str, Any]], Answer]


class Locks:
    """Locks, queues, sessions, tokens. order: one of `admission.ORDERS`."""

    def __init__(self, *, order: str = "fifo") -> None:
        self.order = order
        self.index = 0
        self.tokens = Tokens()
        self.locks: dict[str, Lock] = {}
        self.sessions: dict[int, Session] = {}
        self.ended: dict[tuple[str, int, int], str] = {}
        self._events: list[Event] = []

    def apply(self, index: int, command: Mapping[str, Any] | None) -> tuple[Answer, list[Event]]:
        """Takes in one committed command: the answer to whoever sent it, and what came about."""
        assert index > self.index, "commands come once, in order"
        self.index = index
        self._events = []
        if command is None:
            return {"is": "noop"}, []
        op = str(command["op"])
        handler: Handler = getattr(self, _HANDLERS[op])
        once = op in _ONCE
        answer = self._once(index, command, handler) if once else handler(index, command)
        return answer, self._events

    # Requests that a client may send again under the same number

    def _once(self, index: int, command: Mapping[str, Any], handler: Handler) -> Answer:
        session = self.sessions.get(command["session"])
        if session is None:
            return {"is": "no-session"}
        self._use(session)
        if given_up := session.finish(command["done"]):
            self._unqueue(index, session, given_up, "given-up")
        seq = command["seq"]
        if seq < session.done:
            return {"is": "stale"}
        known = session.answers.get(seq)
        if known is not None:
            return self._again(index, command, known)
        if len(session.answers) >= MAX_OPEN:
            return {"is": "too-many-requests"}
        answer = session.answers[seq] = handler(index, command)
        return answer

    def _again(self, index: int, command: Mapping[str, Any], known: Answer) -> Answer:
        if known["is"] != "queued":
            return known
        lock = self.locks[str(known["lock"])]
        wanted = (command["session"], command["seq"])
        waiter = next(w for w in lock.queue if (w.session, w.seq) == wanted)
        if self.order == "racing" and lock.admits(waiter):
            lock.queue.remove(waiter)
            self._settle(waiter, index)
            if not lock.holds:
                self._serve(index, waiter.lock)
            return self.sessions[waiter.session].answers[waiter.seq]
        return self._queued(lock, waiter)

    def _queued(self, lock: Lock, waiter: Waiter) -> Answer:
        place = admission.place(lock, waiter, self.order)
        return {"is": "queued", "lock": waiter.lock, "attempt": waiter.attempt, "place": place}

    def _acquire(self, index: int, command: Mapping[str, Any]) -> Answer:
        name = command["lock"]
        lock = self.locks.get(name) or Lock()
        waiter = Waiter(
            session=command["session"],
            seq=command["seq"],
            lock=name,
            attempt=command["attempt"],
            ttl_ns=command["ttl_ns"],
            wait_ns=command["wait_ns"],
            owner=command["owner"],
            **(command.get("terms") or {}),
        )
        if changed := self.tokens.changed(waiter):
            return changed
        if self.lets_in(lock, waiter):
            self.sessions[waiter.session].busy += 1
            return self._grant(index, waiter)
        if waiter.wait_ns == 0:
            other = (lock.holds or lock.queue)[0]
            return {"is": "held", "owner": other.owner}
        if self.sessions[waiter.session].busy and (circle := self.circle(waiter)):
            return circle
        lock.queue.append(waiter)
        self.sessions[waiter.session].busy += 1
        self._events.append(Queued(waiter=waiter))
        return self._queued(lock, waiter)

    def lets_in(self, lock: Lock, waiter: Waiter) -> bool:
        """Whether somebody who just comes is granted the lock at once."""
        return admission.lets_in(lock, waiter, self.order)

    def circle(self, waiter: Waiter) -> Answer | None:
        """The answer to one whose wait would close a circle of waits, None: it may wait."""
        return circles.closed_by(self.locks, waiter, self.order)

    def following(self, lock: Lock) -> Waiter | None:
        """The waiter that is to be let in now, None for nobody."""
        return admission.following(lock, self.order)

    def _renew(self, index: int, command: Mapping[str, Any]) -> Answer:
        hold = self._held(command)
        if hold is None:
            return self._not_holder(command)
        holds = self.locks[hold.lock].holds
        at = holds.index(hold)
        hold = hold.renewed(ttl_ns=command["ttl_ns"], index=index)
        holds[at] = hold
        self._events.append(Started(hold=hold))
        return {"is": "renewed", "token": hold.token, "ttl_ns": hold.ttl_ns}

    def _release(self, index: int, command: Mapping[str, Any]) -> Answer:
        hold = self._held(command)
        if hold is None:
            return self._not_holder(command)
        self._end(index, hold, "released")
        return {"is": "released", "token": hold.token}

    def _cancel(self, index: int, command: Mapping[str, Any]) -> Answer:
        """Ends the request `target` of this session, even one that has not arrived yet.

        `drop` also gives back what it was granted; else a grant stands and is told.
        """
        session = self.sessions[command["session"]]
        target = command["target"]
        if target < session.done:
            return {"is": "stale"}
        known = session.answers.get(target)
        if known is None or known["is"] == "queued":
            if known is not None:
                self._unqueue(index, session, [target], "cancelled")
            session.answers[target] = {"is": "cancelled"}
            return session.answers[target]
        if known["is"] == "granted" and command["drop"]:
            hold = self._held(known)
            if hold is not None:
                self._end(index, hold, "abandoned")
        return known

    # Who owns

    def _held(self, command: Mapping[str, Any]) -> Hold | None:
        lock = self.locks.get(command["lock"])
        attempt, token = command["attempt"], command["token"]
        for hold in lock.holds if lock else ():
            if hold.attempt == attempt and hold.token == token:
                return hold
        return None

    def _not_holder(self, command: Mapping[str, Any]) -> Answer:
        reason = self.fate(command["lock"], command["token"], command["attempt"])
        return {"is": "not-holder", "reason": reason}

    def fate(self, lock: str, token: int, attempt: int) -> str:
        """ "held", or why that hold ended, or "unknown" if it is too long ago or never was."""
        if self._held({"lock": lock, "token": token, "attempt": attempt}):
            return "held"
        return self.ended.get((lock, token, attempt), "unknown")

    def _grant(self, index: int, waiter: Waiter) -> Answer:
        lock = self.locks.setdefault(waiter.lock, Lock())
        hold = Hold.of(waiter, token=self._token(lock, waiter), index=index)
        lock.holds.append(hold)
        self._events.append(Started(hold=hold))
        answer: Answer = {
            "is": "granted",
            "lock": hold.lock,
            "attempt": hold.attempt,
            "token": hold.token,
            "ttl_ns": hold.ttl_ns,
        }
        self.sessions[waiter.session].answers[waiter.seq] = answer
        return answer

    def _token(self, lock: Lock, waiter: Waiter) -> int:
        """A new one, or that of the holds it joins: for who comes in again, and for readers, none
        of whom is newer than another."""
        if lock.holds and waiter.mode != PERMITS:
            return lock.holds[0].token
        return self.tokens.next(waiter.lock)

    def _end(self, index: int, hold: Hold, reason: str) -> None:
        self.locks[hold.lock].holds.remove(hold)
        self.sessions[hold.session].busy -= 1
        self.ended[hold.lock, hold.token, hold.attempt] = reason
        if len(self.ended) > MAX_ENDED:
            del self.ended[next(iter(self.ended))]
        self._events.append(Ended(hold=hold, reason=reason))
        self._serve(index, hold.lock)

    def _serve(self, index: int, name: str) -> None:
        """Lets in whom there is room for now, in the order of the queue; in a race, tells them."""
        lock = self.locks[name]
        if self.order == "racing":
            self._events += [Freed(waiter=w) for w in lock.queue if lock.admits(w)]
        while (waiter := self.following(lock)) is not None:
            lock.queue.remove(waiter)
            self._settle(waiter, index)
        if not lock.holds and not lock.queue:
            del self.locks[name]

    def _settle(self, waiter: Waiter, index: int) -> None:
        """Grants a lock to one who waited for it, or turns it down if that came too late."""
        answer = self.tokens.changed(waiter)
        if answer is not None:
            session = self.sessions[waiter.session]
            session.busy -= 1
            session.answers[waiter.seq] = answer
        else:
            answer = self._grant(index, waiter)
            if self.order == "priority" and (queue := self.locks[waiter.lock].queue):
                queue[:] = [other.passed_over() for other in queue]
        self._events.append(Settled(waiter=waiter, answer=answer))

    def _unqueue(self, index: int, session: Session, seqs: list[int], answer: str) -> None:
        """Takes waiters of one session out of their queues: all, before another is let in."""
        left = [w for w in self.waiters(session.number) if w.seq in seqs]
        for waiter in left:
            self.locks[waiter.lock].queue.remove(waiter)
            session.busy -= 1
            settled: Answer = {"is": answer}
            if waiter.seq >= session.done:
                session.answers[waiter.seq] = settled
            self._events.append(Settled(waiter=waiter, answer=settled))
        for name in dict.fromkeys(waiter.lock for waiter in left):
            self._serve(index, name)

    # Sessions

    def _open(self, index: int, command: Mapping[str, Any]) -> Answer:
        if len(self.sessions) >= MAX_SESSIONS:
            idle = next((s for s in self.sessions.values() if not s.busy), None)
            if idle is None:
                return {"is": "too-many-sessions"}
            self._gone(idle)
        session = Session(index, ttl_ns=command["ttl_ns"], beat=index)
        self.sessions[index] = session
        self._beat_event(session)
        return {"is": "opened", "session": index, "ttl_ns": session.ttl_ns}

    def _beat(self, index: int, command: Mapping[str, Any]) -> Answer:
        session = self.sessions.get(command["session"])
        if session is None:
            return {"is": "no-session"}
        self._use(session)
        session.beat = index
        self._beat_event(session)
        return {"is": "alive", "session": session.number, "ttl_ns": session.ttl_ns}

    def _close(self, index: int, command: Mapping[str, Any]) -> Answer:
        session = self.sessions.get(command["session"])
        if session is None:
            return {"is": "no-session"}
        self._end_session(index, session)
        return {"is": "closed"}

    def _end_session(self, index: int, session: Session) -> None:
        waiting = [waiter.seq for waiter in self.waiters(session.number)]
        self._unqueue(index, session, waiting, "session-ended")
        for hold in [hold for lock in self.locks.values() for hold in lock.holds]:
            if hold.session == session.number:
                self._end(index, hold, "session")
        self._gone(session)

    def _gone(self, session: Session) -> None:
        del self.sessions[session.number]
        self._events.append(Gone(session=session.number))

    def _use(self, session: Session) -> None:
        del self.sessions[session.number]
        self.sessions[session.number] = session

    def _beat_event(self, session: Session) -> None:
        if session.ttl_ns:
            self._events.append(
                Beat(session=session.number, ttl_ns=session.ttl_ns, beat=session.beat)
            )

    def waiters(self, session: int) -> list[Waiter]:
        """What a session waits for, lock by lock."""
        return [w for lock in self.locks.values() for w in lock.queue if w.session == session]

    # What the leader decides, each conditional on what it saw

    def _expire(self, index: int, command: Mapping[str, Any]) -> Answer:
        """Ends a lease, unless it was renewed since the leader saw it run out."""
        hold = self._held(command)
        if hold is None or hold.renewal != command["renewal"]:
            return {"is": "overtaken"}
        self._end(index, hold, "expired")
        return {"is": "expired"}

    def _drop(self, index: int, command: Mapping[str, Any]) -> Answer:
        """Ends a wait that has lasted its time, or whose client has gone."""
        session = self.sessions.get(command["session"])
        known = session.answers.get(command["seq"]) if session else None
        if session is None or known is None or known["is"] != "queued":
            return {"is": "overtaken"}
        self._unqueue(index, session, [command["seq"]], command["why"])
        return {"is": "dropped"}

    def _expire_session(self, index: int, command: Mapping[str, Any]) -> Answer:
        session = self.sessions.get(command["session"])
        if session is None or session.beat != command["beat"]:
            return {"is": "overtaken"}
        self._end_session(index, session)
        return {"is": "expired"}

    # Operator and queries

    def _force(self, index: int, command: Mapping[str, Any]) -> Answer:
        lock = self.locks.get(command["lock"])
        holds = [h for h in (lock.holds if lock else []) if command["token"] in (-1, h.token)]
        if not holds:
            return {"is": "not-held"}
        for hold in holds:
            self._end(index, hold, "revoked")
        return {"is": "forced", "token": holds[0].token, "owner": holds[0].owner}

    def _holder(self, index: int, command: Mapping[str, Any]) -> Answer:
        lock = self.locks.get(command["lock"]) or Lock()
        return admission.described(lock, command["attempt"], self.order)

    # Snapshots

    def dump(self) -> dict[str, Any]:
        """All of it as JSON; equal machines give equal dumps, orders included."""
        return {
            "order": self.order,
            "index": self.index,
            "tokens": self.tokens.dump(),
            "locks": [[name, lock.dump()] for name, lock in self.locks.items()],
            "sessions": [session.dump() for session in self.sessions.values()],
            "ended": [[*hold, why] for hold, why in self.ended.items()],
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Locks:
        """The machine of a dump."""
        locks = cls(order=state["order"])
        locks.index, locks.tokens = state["index"], Tokens.load(state["tokens"])
        locks.locks = {name: Lock.load(lock) for name, lock in state["locks"]}
        sessions = [Session.load(session) for session in state["sessions"]]
        locks.sessions = {session.number: session for session in sessions}
        locks.ended = {(lock, token, n): why for lock, token, n, why in state["ended"]}
        return locks


_ONCE = ("acquire", "renew", "release", "cancel")
_HANDLERS = {
    **{op: f"_{op}" for op in _ONCE},
    "open": "_open",
    "beat": "_beat",
    "close": "_close",
    "expire": "_expire",
    "drop": "_drop",
    "expire-session": "_expire_session",
    "force": "_force",
    "holder": "_holder",
}
