"""Planted bugs of ends of leases, waits and sessions, one error each.

The catalogue of mutants lists what each breaks. None of them is loaded unless a run requests it.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.clusters.systems.reference.locks.state import (
    Answer,
    Beat,
    Command,
    Event,
    Hold,
    Lock,
    Session,
    Started,
    Waiter,
)
from holdfast.clusters.systems.reference.locks.state_machine import Handler, Locks
from holdfast.clusters.systems.reference.service.node import LockNode, expiry

# Leases


class Revive(Locks):
    """Revives an expired hold on its renewal, even if another client holds by now."""

    def __init__(self, *, order: str = "fifo", delays: bool = False) -> None:
        super().__init__(order=order, delays=delays)
        self._expired: dict[tuple[str, int, int], Hold] = {}

    def end(self, index: int, hold: Hold, reason: str) -> None:
        if reason == "expired":
            self._expired[hold.lock, hold.token, hold.attempt] = hold
        super().end(index, hold, reason)

    def _renew(self, index: int, command: Command) -> Answer:
        named = (command["lock"], command["token"], command["attempt"])
        hold = self._expired.pop(named, None)
        if hold is not None and hold.session in self.sessions:
            self.locks.setdefault(hold.lock, Lock()).holds.append(hold)
            self.sessions[hold.session].busy += 1
        return super()._renew(index, command)


class RenewedExpiry(Locks):
    """Ends an expired lease although it was renewed since the leader's check."""

    def apply(self, index: int, command: Command | None) -> tuple[Answer, list[Event]]:
        if command is not None and command["op"] == "expire":
            hold = self.held(command)
            command = {**command, "renewal": hold.renewal if hold else -1}
        return super().apply(index, command)


class AnyonesExpiry(Locks):
    """Ends the present hold when the end of an older lease reaches the log."""

    def apply(self, index: int, command: Command | None) -> tuple[Answer, list[Event]]:
        if command is not None and command["op"] == "expire":
            lock = self.locks.get(command["lock"])
            for hold in lock.holds[:1] if lock else ():
                command = {**command, "attempt": hold.attempt, "token": hold.token}
                command["renewal"] = hold.renewal
        return super().apply(index, command)


class EndlessLease(LockNode):
    """Never checks whether a lease has expired."""

    def _on_event(self, now_ns: int, event: Event) -> None:
        if not isinstance(event, Started):
            super()._on_event(now_ns, event)


# Requests and waits


class TakenTwice(Locks):
    """Treats a retried request as a new one."""

    def _once(self, index: int, command: Command, handler: Handler) -> Answer:
        session = self.sessions.get(command["session"])
        known = session.answers.get(command["seq"]) if session else None
        if session is not None and known is not None and known["is"] == "granted":
            del session.answers[command["seq"]]
        return super()._once(index, command, handler)


class KeptAnswers(Locks):
    """Keeps the answers of requests that their client has finished."""

    def _once(self, index: int, command: Command, handler: Handler) -> Answer:
        session = self.sessions.get(command["session"])
        known = session.answers.items() if session else ()
        kept = {seq: answer for seq, answer in known if answer["is"] != "queued"}
        answer = super()._once(index, command, handler)
        if session is not None:
            session.answers = {**kept, **session.answers}
        return answer


class DeadPredecessor(Locks):
    """A waiter whose predecessor left the queue treats the lock as free."""

    def unqueue(self, index: int, session: Session, seqs: list[int], answer: str) -> None:
        left = [w for w in self.waiters(session.number) if w.seq in seqs]
        behind = [w for gone in left if (w := self._behind(gone)) is not None and w not in left]
        super().unqueue(index, session, seqs, answer)
        for waiter in behind:
            lock = self.locks.get(waiter.lock, Lock())
            if waiter in lock.queue:
                lock.queue.remove(waiter)
                self._settle(waiter, index)

    def _behind(self, gone: Waiter) -> Waiter | None:
        queue = self.locks[gone.lock].queue
        at = queue.index(gone)
        return queue[at + 1] if at + 1 < len(queue) else None


# Sessions


class WrongReason(Locks):
    """Notifies a holder ended by an operator that its lease has expired."""

    def end(self, index: int, hold: Hold, reason: str) -> None:
        super().end(index, hold, "expired" if reason == "revoked" else reason)


class Departed(dict[int, Session]):
    """Sessions, with an unreachable blank one for the remains of an ended session."""

    def __missing__(self, number: int) -> Session:
        return Session(number, ttl_ns=0, beat=0)


class ZombieWaiter(Locks):
    """Keeps a waiter in the queue when its session ends, and grants it the lock in its turn."""

    def __init__(self, *, order: str = "fifo", delays: bool = False) -> None:
        super().__init__(order=order, delays=delays)
        self.sessions = Departed()

    @classmethod
    def load(cls, state: Mapping[str, object]) -> Locks:
        locks = super().load(state)
        locks.sessions = Departed(locks.sessions)
        return locks

    def end_session(self, index: int, session: Session, why: str) -> None:
        stay = self.waiters(session.number)
        super().end_session(index, session, why)
        for waiter in stay:
            lock = self.locks.setdefault(waiter.lock, Lock())
            if lock.holds:
                lock.queue.append(waiter)


class ForgottenAnswers(Locks):
    """Does not restore responses: a retried request counts as a new one."""

    @classmethod
    def load(cls, state: Mapping[str, object]) -> Locks:
        locks = super().load(state)
        for session in locks.sessions.values():
            known = session.answers.items()
            session.answers = {seq: one for seq, one in known if one["is"] == "queued"}
        return locks


class LingeringHolds(Locks):
    """Ends a session and leaves its holds in force."""

    def end_session(self, index: int, session: Session, why: str) -> None:
        waiting = [waiter.seq for waiter in self.waiters(session.number)]
        self.unqueue(index, session, waiting, "session-ended")
        self._gone(session)

    def end(self, index: int, hold: Hold, reason: str) -> None:
        if hold.session in self.sessions:
            super().end(index, hold, reason)


class ShortSession(LockNode):
    """Promises a session its full ttl and ends it after a quarter of it."""

    def _on_event(self, now_ns: int, event: Event) -> None:
        if isinstance(event, Beat):
            event = Beat(session=event.session, ttl_ns=event.ttl_ns // 4, beat=event.beat)
        super()._on_event(now_ns, event)


class ConnectionBound(LockNode):
    """Treats the end of a connection as the end of its client."""

    def _on_left(self, now_ns: int, connection: int) -> None:
        sessions = [s for s, c in self._connections.items() if c == connection]
        for lock in self.locks.locks.values():
            for hold in lock.holds:
                if hold.session in sessions:
                    self._on_due(expiry(hold))
        super()._on_left(now_ns, connection)


ENDINGS: dict[str, type[Locks]] = {
    "revive": Revive,
    "renewed-expiry": RenewedExpiry,
    "anyones-expiry": AnyonesExpiry,
    "forgotten-answers": ForgottenAnswers,
    "taken-twice": TakenTwice,
    "kept-answers": KeptAnswers,
    "dead-predecessor": DeadPredecessor,
    "wrong-reason": WrongReason,
    "zombie-waiter": ZombieWaiter,
    "lingering-holds": LingeringHolds,
}
"""name -> the locks with that bug"""

CLOCKS: dict[str, type[LockNode]] = {
    "endless-lease": EndlessLease,
    "short-session": ShortSession,
    "connection-bound": ConnectionBound,
}
"""name -> the node with that bug"""
