"""State and events of the lock state machine: holds, waiters, sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypedDict

MAX_SESSIONS = 4096
"""limit on idle sessions; beyond it the least recently used is dropped"""
MAX_OPEN = 1024
"""limit on the requests of one session whose responses are kept for retries"""
MAX_ENDED = 4096
"""limit on the ended holds whose reason is kept for a holder that was unreachable"""

EXCLUSIVE, SHARED, PERMITS = range(3)
"""Mode of a lock: exclusive, shared with readers, or permits of a semaphore."""

Answer = Mapping[str, Any]
"""Response to a request: "is" is its kind, the rest are details. Replaced, never changed."""


class GivenTerms(TypedDict, total=False):
    """Terms of an acquire that differ from the defaults (`operations.Terms`)."""

    mode: int
    permits: int
    limit: int
    metadata: str
    reenter: bool
    newest: int
    priority: int


class Command(TypedDict, total=False):
    """One committed command: `op`, and the fields that `service.request_validation` requires of
    that op, or those of a leader's decision (`decisions`). Validated before it is logged.

    session, seq, done   session; number of the request in it; all before `done` were answered
    target               number of the request that a cancel is about
    renewal, since, beat   log index after which nothing may have happened: the hold's last renewal,
                         the closing of the lock, the session's last heartbeat
    """

    op: str
    session: int
    seq: int
    done: int
    lock: str
    attempt: int
    token: int
    ttl_ns: int
    wait_ns: int
    owner: str
    terms: GivenTerms | None
    target: int
    drop: bool
    why: str
    sequencer: str
    renewal: int
    since: int
    beat: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Hold:
    """One grant in force. granted, renewal: log index of the grant and of its last renewal.

    Lists of holds are searched by identity, and so are those of waiters.
    """

    lock: str
    session: int
    attempt: int
    owner: str
    token: int
    ttl_ns: int
    granted: int
    renewal: int
    renewals: int
    mode: int = EXCLUSIVE
    permits: int = 1
    limit: int = 1
    metadata: str = ""

    @classmethod
    def of(cls, waiter: Waiter, *, token: int, index: int) -> Hold:
        """The hold that a waiter is granted by the log entry `index`."""
        return cls(
            lock=waiter.lock,
            session=waiter.session,
            attempt=waiter.attempt,
            owner=waiter.owner,
            token=token,
            ttl_ns=waiter.ttl_ns,
            granted=index,
            renewal=index,
            renewals=0,
            mode=waiter.mode,
            permits=waiter.permits,
            limit=waiter.limit,
            metadata=waiter.metadata,
        )

    def renewed(self, *, ttl_ns: int, index: int) -> Hold:
        """The same grant, its lease restarted by the log entry `index`."""
        # `dataclasses.replace` costs several times as much, and this is the most frequent command.
        return Hold(
            lock=self.lock,
            session=self.session,
            attempt=self.attempt,
            owner=self.owner,
            token=self.token,
            ttl_ns=ttl_ns,
            granted=self.granted,
            renewal=index,
            renewals=self.renewals + 1,
            mode=self.mode,
            permits=self.permits,
            limit=self.limit,
            metadata=self.metadata,
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Waiter:
    """One acquire in a queue, known by its session and request number. wait_ns -1: no bound.

    permits, limit   of a semaphore: number requested, and number of all
    reenter          it may be granted beside holds of its own session
    metadata         text of its hold, for holder queries
    newest           it is granted only while this is the newest token of the lock; -1: always
    priority         the larger one goes first, with order "priority"
    passed           number of grants to others while it waited, if it ages by each
    came             log index of its arrival
    """

    session: int
    seq: int
    lock: str
    attempt: int
    ttl_ns: int
    wait_ns: int
    owner: str
    mode: int = EXCLUSIVE
    permits: int = 1
    limit: int = 1
    metadata: str = ""
    reenter: bool = False
    newest: int = -1
    priority: int = 0
    passed: int = 0
    came: int = 0

    def passed_over(self) -> Waiter:
        """The same wait, after one more grant to another waiter."""
        return Waiter(
            session=self.session,
            seq=self.seq,
            lock=self.lock,
            attempt=self.attempt,
            ttl_ns=self.ttl_ns,
            wait_ns=self.wait_ns,
            owner=self.owner,
            mode=self.mode,
            permits=self.permits,
            limit=self.limit,
            metadata=self.metadata,
            reenter=self.reenter,
            newest=self.newest,
            priority=self.priority,
            passed=self.passed + 1,
            came=self.came,
        )


# Their fields are plain values. `dataclasses.asdict` copies each, at ten times the cost, and a
# snapshot may be due at every second command.
_HOLD, _WAITER = ([one.name for one in fields(kind)] for kind in (Hold, Waiter))
_of_hold, _of_waiter = attrgetter(*_HOLD), attrgetter(*_WAITER)


@dataclass(slots=True)
class Lock:
    """A lock with a holder or waiter, or one that is closed; others are not kept.

    closed   log index of the holder's death, from which the lock-delay lasts; 0: open
    """

    holds: list[Hold] = field(default_factory=list)
    queue: list[Waiter] = field(default_factory=list)
    closed: int = 0

    @property
    def idle(self) -> bool:
        """Whether it has no state to keep."""
        return not (self.holds or self.queue or self.closed)

    def admits(self, waiter: Waiter) -> bool:
        """Whether the holds in force allow one more of this kind."""
        if self.closed:
            return False
        if not self.holds:
            return True
        kind = self.holds[0].mode
        if kind != waiter.mode or kind == EXCLUSIVE:
            return False
        if kind == SHARED:
            return True
        taken = sum(hold.permits for hold in self.holds)
        return self.holds[0].limit == waiter.limit and taken + waiter.permits <= waiter.limit

    def reentered_by(self, waiter: Waiter) -> bool:
        """Whether it requests reentry while only its own session holds."""
        mine = [hold.session == waiter.session for hold in self.holds]
        return waiter.reenter and bool(mine) and all(mine)

    def dump(self) -> list[Any]:
        """As JSON."""
        holds = [dict(zip(_HOLD, _of_hold(hold), strict=True)) for hold in self.holds]
        queue = [dict(zip(_WAITER, _of_waiter(one), strict=True)) for one in self.queue]
        return [holds, queue, self.closed]

    @classmethod
    def load(cls, state: list[Any]) -> Lock:
        """The lock of a dump."""
        holds, queue, closed = state
        held, waiting = [Hold(**h) for h in holds], [Waiter(**w) for w in queue]
        return cls(holds=held, queue=waiting, closed=closed)


class Session:
    """One registered client: its requests have numbers, their responses are kept.

    ttl_ns   0: it lives without heartbeats, until it is the least recently used of too many
    beat     log index of the last heartbeat
    done     requests below this number are finished; their client never retries them
    busy     number of its holds and waiters; a busy session is not dropped
    """

    __slots__ = ("answers", "beat", "busy", "done", "number", "ttl_ns")

    def __init__(self, number: int, *, ttl_ns: int, beat: int) -> None:
        self.number = number
        self.ttl_ns = ttl_ns
        self.beat = beat
        self.done = 0
        self.busy = 0
        self.answers: dict[int, Answer] = {}

    def finish(self, done: int) -> list[int]:
        """Drops the responses to all requests below `done`; returns those that still waited."""
        if done <= self.done:
            return []
        self.done = done
        answers = self.answers
        finished = [seq for seq in answers if seq < done]
        return [seq for seq in finished if answers.pop(seq)["is"] == "queued"]

    def dump(self) -> list[Any]:
        """As JSON."""
        answers = [[seq, dict(answer)] for seq, answer in self.answers.items()]
        return [self.number, self.ttl_ns, self.beat, self.done, self.busy, answers]

    @classmethod
    def load(cls, state: list[Any]) -> Session:
        """The session of a dump."""
        number, ttl_ns, beat, done, busy, answers = state
        session = cls(number, ttl_ns=ttl_ns, beat=beat)
        session.done, session.busy = done, busy
        session.answers = dict(answers)
        return session


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """A lease starts in full: granted or renewed."""

    hold: Hold


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A hold is over: released, abandoned, expired, session, revoked."""

    hold: Hold
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Queued:
    """A waiter has joined a queue."""

    waiter: Waiter


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """A waiter has left its queue, with this final response."""

    waiter: Waiter
    answer: Answer


@dataclass(frozen=True, kw_only=True, slots=True)
class Freed:
    """In racing mode: the lock that this waiter requests is free for the first request."""

    waiter: Waiter


@dataclass(frozen=True, kw_only=True, slots=True)
class Closed:
    """A lock whose holder died is closed for the lock-delay, from the log entry `since` on."""

    lock: str
    since: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Beat:
    """A session with heartbeats lives for another ttl."""

    session: int
    ttl_ns: int
    beat: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Gone:
    """A session is over, or dropped."""

    session: int


Event = Started | Ended | Queued | Settled | Freed | Closed | Beat | Gone
