"""The replicated lock state machine: deterministic, driven by the log, equal on every node.

It has no clock: the leader decides that a lease, a wait or a session is over, and proposes a
command for that, conditional on what it saw. Every list and table is iterated in an order that the
log alone determines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from holdfast.clusters.systems.reference.locks import (
    admission,
    deadlock,
    decisions,
    hierarchy,
    sequencers,
)
from holdfast.clusters.systems.reference.locks.end_reasons import Endings
from holdfast.clusters.systems.reference.locks.state import (
    MAX_OPEN,
    MAX_SESSIONS,
    PERMITS,
    Answer,
    Beat,
    Closed,
    Command,
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
from holdfast.clusters.systems.reference.locks.tokens import TokenCounter

Handler = Callable[[int, Command], Answer]


class Locks:
    """Locks, queues, sessions, tokens. order: one of `admission.ORDERS`.

    delays   whether a lock whose holder died stays closed until the leader opens it again
    """

    def __init__(self, *, order: str = "fifo", delays: bool = False) -> None:
        self.order = order
        self.delays = delays
        self.index = 0
        self.tokens = TokenCounter()
        self.locks: dict[str, Lock] = {}
        self.sessions: dict[int, Session] = {}
        self.endings = Endings()
        self._events: list[Event] = []

    def apply(self, index: int, command: Command | None) -> tuple[Answer, list[Event]]:
        """Applies one committed command: the response to its sender, and the events."""
        assert index > self.index, "commands come once, in order"
        self.index = index
        self._events = []
        if command is None:
            return {"is": "noop"}, []
        op = str(command["op"])
        if op in decisions.COMMANDS:
            return decisions.COMMANDS[op](self, index, command), self._events
        handler: Handler = getattr(self, _HANDLERS[op])
        once = op in _ONCE
        answer = self._once(index, command, handler) if once else handler(index, command)
        return answer, self._events

    # Requests that a client may retry with the same number

    def _once(self, index: int, command: Command, handler: Handler) -> Answer:
        session = self.sessions.get(command["session"])
        if session is None:
            return {"is": "no-session"}
        self._use(session)
        if given_up := session.finish(command["done"]):
            self.unqueue(index, session, given_up, "given-up")
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

    def _again(self, index: int, command: Command, known: Answer) -> Answer:
        if known["is"] != "queued":
            return known
        lock = self.locks[str(known["lock"])]
        wanted = (command["session"], command["seq"])
        waiter = next(w for w in lock.queue if (w.session, w.seq) == wanted)
        if self.free_to(waiter):
            lock.queue.remove(waiter)
            self._settle(waiter, index)
            if not lock.holds:
                self.serve(index, waiter.lock)
            return self.sessions[waiter.session].answers[waiter.seq]
        return self._queued(waiter)

    def free_to(self, waiter: Waiter) -> bool:
        """Whether clients race, and this one would be granted the lock if it retried now."""
        return self.order == "racing" and self.line(waiter.lock).admits(waiter)

    def place(self, waiter: Waiter) -> int:
        """Number of waiters ahead of a waiter."""
        return admission.place(self.line(waiter.lock), waiter, self.order)

    def line(self, name: str) -> Lock:
        """The lock as requests see it: a path with its whole ancestor chain."""
        return hierarchy.line(self.locks, name)

    def _queued(self, waiter: Waiter) -> Answer:
        place = self.place(waiter)
        return {"is": "queued", "lock": waiter.lock, "attempt": waiter.attempt, "place": place}

    def _acquire(self, index: int, command: Command) -> Answer:
        name = command["lock"]
        lock = self.line(name)
        waiter = Waiter(
            session=command["session"],
            seq=command["seq"],
            lock=name,
            attempt=command["attempt"],
            ttl_ns=command["ttl_ns"],
            wait_ns=command["wait_ns"],
            owner=command["owner"],
            came=index,
            **(command.get("terms") or {}),
        )
        if changed := self.tokens.changed(waiter):
            return changed
        if self.lets_in(lock, waiter):
            self.sessions[waiter.session].busy += 1
            return self._grant(index, waiter)
        if waiter.wait_ns == 0:
            owners = [*(h.owner for h in lock.holds), *(w.owner for w in lock.queue)]
            return {"is": "held", "owner": next(iter(owners), "no owner until the delay is over")}
        if self.sessions[waiter.session].busy and (cycle := self.cycle(waiter)):
            return cycle
        self.locks.setdefault(name, Lock()).queue.append(waiter)
        self.sessions[waiter.session].busy += 1
        self._events.append(Queued(waiter=waiter))
        return self._queued(waiter)

    def lets_in(self, lock: Lock, waiter: Waiter) -> bool:
        """Whether a new request is granted the lock at once."""
        return admission.lets_in(lock, waiter, self.order)

    def cycle(self, waiter: Waiter) -> Answer | None:
        """The response to a request that would close a wait-for cycle, None: it may wait."""
        return deadlock.closed_by(self.locks, waiter, self.order)

    def following(self, lock: Lock) -> Waiter | None:
        """The waiter to grant now, None for none."""
        return admission.following(lock, self.order)

    def _renew(self, index: int, command: Command) -> Answer:
        hold = self.held(command)
        if hold is None:
            return self._not_holder(command)
        holds = self.locks[hold.lock].holds
        at = holds.index(hold)
        hold = hold.renewed(ttl_ns=command["ttl_ns"], index=index)
        holds[at] = hold
        self._events.append(Started(hold=hold))
        return {"is": "renewed", "token": hold.token, "ttl_ns": hold.ttl_ns}

    def _release(self, index: int, command: Command) -> Answer:
        hold = self.held(command)
        if hold is None:
            return self._not_holder(command)
        left = self.entries(hold) - 1
        self.end(index, hold, "released")
        return {"is": "released", "token": hold.token, "left": left}

    def entries(self, hold: Hold) -> int:
        """Number of entries of a hold's owner in its lock."""
        return sum(other.session == hold.session for other in self.locks[hold.lock].holds)

    def _cancel(self, index: int, command: Command) -> Answer:
        """Ends the request `target` of this session, even one that has not arrived yet.

        `drop` also releases its grant; else a grant stands and is returned.
        """
        session = self.sessions[command["session"]]
        target = command["target"]
        if target < session.done:
            return {"is": "stale"}
        known = session.answers.get(target)
        if known is None or known["is"] == "queued":
            if known is not None:
                self.unqueue(index, session, [target], "cancelled")
            session.answers[target] = {"is": "cancelled"}
            return session.answers[target]
        if known["is"] == "granted" and command["drop"]:
            hold = self.held(cast(Command, known))
            if hold is not None:
                self.end(index, hold, "abandoned")
        return known

    # Ownership

    def held(self, command: Command) -> Hold | None:
        lock = self.locks.get(command["lock"])
        attempt, token = command["attempt"], command["token"]
        for hold in lock.holds if lock else ():
            if hold.attempt == attempt and hold.token == token:
                return hold
        return None

    def _not_holder(self, command: Command) -> Answer:
        reason = self.fate(command["lock"], command["token"], command["attempt"])
        return {"is": "not-holder", "reason": reason}

    def fate(self, lock: str, token: int, attempt: int) -> str:
        """ "held", or why that hold ended, or "unknown" if it is too long ago or never existed."""
        if self.held({"lock": lock, "token": token, "attempt": attempt}):
            return "held"
        return self.endings.why(lock, token, attempt)

    def _grant(self, index: int, waiter: Waiter) -> Answer:
        lock = self.locks.setdefault(waiter.lock, Lock())
        hold = Hold.of(waiter, token=self._token(waiter), index=index)
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

    def _token(self, waiter: Waiter) -> int:
        """A new token, or that of the holds it joins: for reentry, and for readers, none of which
        is newer than another."""
        holds = self.line(waiter.lock).holds
        if holds and waiter.mode != PERMITS:
            return holds[0].token
        return self.tokens.next(waiter.lock)

    def end(self, index: int, hold: Hold, reason: str) -> None:
        self.locks[hold.lock].holds.remove(hold)
        self.sessions[hold.session].busy -= 1
        self.endings.note(hold, reason)
        self._events.append(Ended(hold=hold, reason=reason))
        if self.delays and reason in _DEATHS:
            self.locks[hold.lock].closed = index
            self._events.append(Closed(lock=hold.lock, since=index))
        self.serve(index, hold.lock)

    def serve(self, index: int, name: str) -> None:
        """Grants to the waiters that fit now, in queue order; in a race, notifies them."""
        for one in hierarchy.beside(self.locks, name):
            lock = self.locks.get(one)
            if lock is None:
                continue
            self._events += [Freed(waiter=w) for w in lock.queue if self.free_to(w)]
            while (waiter := self.following(self.line(one))) in lock.queue:
                assert waiter is not None, "no queue has nobody in it"
                lock.queue.remove(waiter)
                self._settle(waiter, index)
            if lock.idle:
                del self.locks[one]

    def _settle(self, waiter: Waiter, index: int) -> None:
        """Grants a lock to a waiter, or rejects it if its condition no longer holds."""
        answer = self.tokens.changed(waiter)
        if answer is not None:
            session = self.sessions[waiter.session]
            session.busy -= 1
            session.answers[waiter.seq] = answer
        else:
            answer = self._grant(index, waiter)
            aging = self.order == "priority"
            for one in hierarchy.beside(self.locks, waiter.lock) if aging else ():
                queue = self.locks[one].queue
                queue[:] = [other.passed_over() for other in queue]
        self._events.append(Settled(waiter=waiter, answer=answer))

    def unqueue(self, index: int, session: Session, seqs: list[int], answer: str) -> None:
        """Removes waiters of one session from their queues: all, before another is granted."""
        left = [w for w in self.waiters(session.number) if w.seq in seqs]
        for waiter in left:
            self.locks[waiter.lock].queue.remove(waiter)
            session.busy -= 1
            settled: Answer = {"is": answer}
            if waiter.seq >= session.done:
                session.answers[waiter.seq] = settled
            self._events.append(Settled(waiter=waiter, answer=settled))
        for name in dict.fromkeys(waiter.lock for waiter in left):
            self.serve(index, name)

    # Sessions

    def _open(self, index: int, command: Command) -> Answer:
        if len(self.sessions) >= MAX_SESSIONS:
            idle = next((s for s in self.sessions.values() if not s.busy), None)
            if idle is None:
                return {"is": "too-many-sessions"}
            self._gone(idle)
        session = Session(index, ttl_ns=command["ttl_ns"], beat=index)
        self.sessions[index] = session
        self._beat_event(session)
        return {"is": "opened", "session": index, "ttl_ns": session.ttl_ns}

    def _beat(self, index: int, command: Command) -> Answer:
        session = self.sessions.get(command["session"])
        if session is None:
            return {"is": "no-session"}
        self._use(session)
        session.beat = index
        self._beat_event(session)
        return {"is": "alive", "session": session.number, "ttl_ns": session.ttl_ns}

    def _close(self, index: int, command: Command) -> Answer:
        session = self.sessions.get(command["session"])
        if session is None:
            return {"is": "no-session"}
        self.end_session(index, session, "closed")
        return {"is": "closed"}

    def end_session(self, index: int, session: Session, why: str) -> None:
        waiting = [waiter.seq for waiter in self.waiters(session.number)]
        self.unqueue(index, session, waiting, "session-ended")
        for hold in [hold for lock in self.locks.values() for hold in lock.holds]:
            if hold.session == session.number:
                self.end(index, hold, why)
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
        """The waiters of a session, lock by lock."""
        return [w for lock in self.locks.values() for w in lock.queue if w.session == session]

    # Queries

    def _holder(self, index: int, command: Command) -> Answer:
        return admission.described(self.line(command["lock"]), command["attempt"], self.order)

    def _check(self, index: int, command: Command) -> Answer:
        """Whether the hold that a sequencer names is in force."""
        lock, generation = sequencers.read(command["sequencer"]) or ("", -1)
        holds = self.locks[lock].holds if lock in self.locks else []
        in_force = any(hold.token == generation for hold in holds)
        return {"is": "in-force" if in_force else "not-in-force"}

    # Snapshots

    def dump(self) -> dict[str, Any]:
        """The whole state as JSON; equal machines give equal dumps, including order."""
        return {
            "order": self.order,
            "delays": self.delays,
            "index": self.index,
            "tokens": self.tokens.dump(),
            "locks": [[name, lock.dump()] for name, lock in self.locks.items()],
            "sessions": [session.dump() for session in self.sessions.values()],
            "ended": self.endings.dump(),
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Locks:
        """The machine of a dump."""
        locks = cls(order=state["order"], delays=state["delays"])
        locks.index, locks.tokens = state["index"], TokenCounter.load(state["tokens"])
        locks.locks = {name: Lock.load(lock) for name, lock in state["locks"]}
        sessions = [Session.load(session) for session in state["sessions"]]
        locks.sessions = {session.number: session for session in sessions}
        locks.endings = Endings.load(state["ended"])
        return locks


_DEATHS = ("session", "expired")
"""Ends of a hold without a sign that its client has stopped acting as owner."""
_ONCE = ("acquire", "renew", "release", "cancel")
_HANDLERS = {
    **{op: f"_{op}" for op in _ONCE},
    "open": "_open",
    "beat": "_beat",
    "close": "_close",
    "holder": "_holder",
    "check": "_check",
}
