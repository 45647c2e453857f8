"""The locks themselves: a state machine that the log drives, the same on every node.

Nothing here knows a clock: that a lease, a wait or a session is over is decided by the leader and
reaches this machine as a command of its own, conditional on what the leader saw. Every list and
table is walked in an order that the log alone determines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from holdfast.clusters.systems.reference.tables import (
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

MAX_SESSIONS = 4096
"""idle sessions beyond it are forgotten, the one unused for longest first"""
MAX_OPEN = 1024
"""requests of one session whose answers are kept because it may ask again"""
MAX_ENDED = 4096
"""holds whose end is remembered, so that a holder who was away can be told why"""

Handler = Callable[[int, Mapping[str, Any]], Answer]


class Locks:
    """Locks, queues, sessions, and the one counter that all fencing tokens come from.

    racing: a freed lock goes to whoever asks first, waiters are only told; else to the first in
    the queue.
    """

    def __init__(self, *, racing: bool = False) -> None:
        self.racing = racing
        self.index = 0
        self.token = 0
        self.locks: dict[str, Lock] = {}
        self.sessions: dict[int, Session] = {}
        self.ended: dict[tuple[str, int], str] = {}
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
        if op in _ONCE:
            answer = self._once(index, command, handler)
        else:
            answer = handler(index, command)
        return answer, self._events

    # Requests that a client may send again under the same number

    def _once(self, index: int, command: Mapping[str, Any], handler: Handler) -> Answer:
        session = self.sessions.get(command["session"])
        if session is None:
            return {"is": "no-session"}
        self._use(session)
        for given_up in session.finish(command["done"]):
            self._unqueue(session.number, given_up, "given-up")
        seq = command["seq"]
        if seq < session.done:
            return {"is": "stale"}
        known = session.answers.get(seq)
        if known is not None:
            return self._again(index, command, known)
        if len(session.answers) >= MAX_OPEN:
            return {"is": "too-many-requests"}
        session.answers[seq] = handler(index, command)
        return session.answers[seq]

    def _again(self, index: int, command: Mapping[str, Any], known: Answer) -> Answer:
        if known["is"] != "queued":
            return known
        lock = self.locks[str(known["lock"])]
        session, seq = command["session"], command["seq"]
        waiter = next(w for w in lock.queue if (w.session, w.seq) == (session, seq))
        if lock.hold is None and self.racing:
            lock.queue.remove(waiter)
            return self._grant(index, waiter)
        return {**known, "place": lock.queue.index(waiter)}

    def _acquire(self, index: int, command: Mapping[str, Any]) -> Answer:
        name = command["lock"]
        lock = self.locks.get(name)
        waiter = Waiter(
            session=command["session"],
            seq=command["seq"],
            lock=name,
            attempt=command["attempt"],
            ttl_ns=command["ttl_ns"],
            wait_ns=command["wait_ns"],
            owner=command["owner"],
        )
        if lock is None or lock.hold is None:
            self.sessions[waiter.session].busy += 1
            return self._grant(index, waiter)
        if waiter.wait_ns == 0:
            return {"is": "held", "owner": lock.hold.owner, "token": lock.hold.token}
        place = len(lock.queue)
        lock.queue.append(waiter)
        self.sessions[waiter.session].busy += 1
        self._events.append(Queued(waiter=waiter))
        return {"is": "queued", "lock": name, "attempt": waiter.attempt, "place": place}

    def _renew(self, index: int, command: Mapping[str, Any]) -> Answer:
        hold = self._held(command)
        if hold is None:
            return self._not_holder(command)
        hold = replace(hold, ttl_ns=command["ttl_ns"], renewal=index, renewals=hold.renewals + 1)
        self.locks[hold.lock].hold = hold
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
                self._unqueue(session.number, target, "cancelled")
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
        hold = lock.hold if lock else None
        if hold and (hold.attempt, hold.token) == (command["attempt"], command["token"]):
            return hold
        return None

    def _not_holder(self, command: Mapping[str, Any]) -> Answer:
        return {"is": "not-holder", "reason": self.fate(command["lock"], command["token"])}

    def fate(self, lock: str, token: int) -> str:
        """ "held", or why that hold ended, or "unknown" if it is too long ago or never was."""
        entry = self.locks.get(lock)
        if entry and entry.hold and entry.hold.token == token:
            return "held"
        return self.ended.get((lock, token), "unknown")

    def _grant(self, index: int, waiter: Waiter) -> Answer:
        self.token += 1
        hold = Hold(
            lock=waiter.lock,
            session=waiter.session,
            attempt=waiter.attempt,
            owner=waiter.owner,
            token=self.token,
            ttl_ns=waiter.ttl_ns,
            granted=index,
            renewal=index,
            renewals=0,
        )
        self.locks.setdefault(waiter.lock, Lock()).hold = hold
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

    def _end(self, index: int, hold: Hold, reason: str) -> None:
        lock = self.locks[hold.lock]
        lock.hold = None
        self.sessions[hold.session].busy -= 1
        self.ended[hold.lock, hold.token] = reason
        if len(self.ended) > MAX_ENDED:
            del self.ended[next(iter(self.ended))]
        self._events.append(Ended(hold=hold, reason=reason))
        if lock.queue and self.racing:
            self._events += [Freed(waiter=waiter) for waiter in lock.queue]
        elif lock.queue:
            waiter = lock.queue.pop(0)
            answer = self._grant(index, waiter)
            self._events.append(Settled(waiter=waiter, answer=answer))
        self._tidy(hold.lock)

    def _unqueue(self, session: int, seq: int, answer: str) -> None:
        waiter = next(w for w in self.waiters(session) if w.seq == seq)
        self.locks[waiter.lock].queue.remove(waiter)
        entry = self.sessions[session]
        entry.busy -= 1
        settled: Answer = {"is": answer}
        if seq >= entry.done:
            entry.answers[seq] = settled
        self._events.append(Settled(waiter=waiter, answer=settled))
        self._tidy(waiter.lock)

    def _tidy(self, name: str) -> None:
        lock = self.locks[name]
        if lock.hold is None and not lock.queue:
            del self.locks[name]

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
        for waiter in self.waiters(session.number):
            self._unqueue(session.number, waiter.seq, "session-ended")
        for hold in [lock.hold for lock in self.locks.values() if lock.hold]:
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
        lock = self.locks.get(command["lock"])
        hold = lock.hold if lock else None
        if hold is None or (hold.token, hold.renewal) != (command["token"], command["renewal"]):
            return {"is": "overtaken"}
        self._end(index, hold, "expired")
        return {"is": "expired"}

    def _drop(self, index: int, command: Mapping[str, Any]) -> Answer:
        """Ends a wait that has lasted its time, or whose client has gone."""
        session = self.sessions.get(command["session"])
        known = session.answers.get(command["seq"]) if session else None
        if known is None or known["is"] != "queued":
            return {"is": "overtaken"}
        self._unqueue(command["session"], command["seq"], command["why"])
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
        hold = lock.hold if lock else None
        if hold is None or command["token"] not in (-1, hold.token):
            return {"is": "not-held"}
        self._end(index, hold, "revoked")
        return {"is": "forced", "token": hold.token, "owner": hold.owner}

    def _holder(self, index: int, command: Mapping[str, Any]) -> Answer:
        lock = self.locks.get(command["lock"])
        queue = lock.queue if lock else []
        place = [n for n, waiter in enumerate(queue) if waiter.attempt == command["attempt"]]
        asked: Answer = {"length": len(queue), "place": place[0] if place else -1}
        if lock is None or lock.hold is None:
            return {"is": "free", **asked}
        hold = lock.hold
        return {
            "is": "held-by",
            "owner": hold.owner,
            "attempt": hold.attempt,
            "token": hold.token,
            "ttl_ns": hold.ttl_ns,
            "renewals": hold.renewals,
            **asked,
        }

    # Snapshots

    def dump(self) -> dict[str, Any]:
        """All of it as JSON; equal machines give equal dumps, orders included."""
        return {
            "racing": self.racing,
            "index": self.index,
            "token": self.token,
            "locks": [[name, lock.dump()] for name, lock in self.locks.items()],
            "sessions": [session.dump() for session in self.sessions.values()],
            "ended": [[lock, token, why] for (lock, token), why in self.ended.items()],
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Locks:
        """The machine of a dump."""
        locks = cls(racing=state["racing"])
        locks.index, locks.token = state["index"], state["token"]
        locks.locks = {name: Lock.load(lock) for name, lock in state["locks"]}
        sessions = [Session.load(session) for session in state["sessions"]]
        locks.sessions = {session.number: session for session in sessions}
        locks.ended = {(lock, token): why for lock, token, why in state["ended"]}
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
