"""What the lock state machine keeps and says: holds, waiters, sessions, events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Answer = Mapping[str, Any]
"""What a request came to: "is" says what, the rest the particulars. Replaced, never changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """One grant in force. granted, renewal: log index of the grant and of its last renewal."""

    lock: str
    session: int
    attempt: int
    owner: str
    token: int
    ttl_ns: int
    granted: int
    renewal: int
    renewals: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiter:
    """One acquire in a queue, known by its session and request number. wait_ns -1: no bound."""

    session: int
    seq: int
    lock: str
    attempt: int
    ttl_ns: int
    wait_ns: int
    owner: str


@dataclass(slots=True)
class Lock:
    """A lock that somebody holds or waits for; others are not kept."""

    hold: Hold | None = None
    queue: list[Waiter] = field(default_factory=list)

    def dump(self) -> list[Any]:
        """As JSON."""
        return [asdict(self.hold) if self.hold else None, [asdict(w) for w in self.queue]]

    @classmethod
    def load(cls, state: list[Any]) -> Lock:
        """The lock of a dump."""
        hold, queue = state
        return cls(hold=Hold(**hold) if hold else None, queue=[Waiter(**w) for w in queue])


class Session:
    """One client that has introduced itself: its requests have numbers, their answers are kept.

    ttl_ns   0: it lives without heartbeats, until it is the one unused for longest of too many
    beat     log index of the last heartbeat
    done     requests below this number are finished; their client never asks again
    busy     holds and waiters that it has; a busy session is not forgotten
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
        """Forgets the answers to all requests below `done`; returns those that still waited."""
        if done <= self.done:
            return []
        self.done = done
        finished = [seq for seq in self.answers if seq < done]
        return [seq for seq in finished if self.answers.pop(seq)["is"] == "queued"]

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
    """A lease runs in full from here: granted or renewed."""

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
    """A waiter has left its queue, with this final answer."""

    waiter: Waiter
    answer: Answer


@dataclass(frozen=True, kw_only=True, slots=True)
class Freed:
    """In racing mode: the lock that this waiter wants is free for whoever asks first."""

    waiter: Waiter


@dataclass(frozen=True, kw_only=True, slots=True)
class Beat:
    """A session with heartbeats lives for another ttl from here."""

    session: int
    ttl_ns: int
    beat: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Gone:
    """A session is over, or forgotten."""

    session: int


Event = Started | Ended | Queued | Settled | Freed | Beat | Gone
