"""Specification of a leader: what it proposes, when, and what its clients are answered.

A leader serves from the time at which it applies the empty entry of its term. It puts into the log
what clients request, once per request that it read, and its own decisions. A lease, a wait, a
session or a lock-delay is over when its whole length has passed on the leader's monotonic clock
since the leader applied what began it; a new leader begins all of them again. Then the leader
decides so in its next step, no earlier and no later. Every request that it put into the log is
answered when it is applied, as the table says, or as `deposed` if the leader is none any more.

Not specified: whether a client without a connection is notified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from holdfast.clusters.systems.reference.specification.locks import (
    FREE,
    Applying,
    Lock,
    Notice,
    Table,
)
from holdfast.clusters.systems.reference.specification.replication import Command, Departs

GONE_NS = 3_000_000_000
"""a waiter whose client was not heard from for this time may be dropped"""
DAY_NS = 86_400_000_000_000
DECISIONS = ("expire", "drop", "reopen", "expire-session")
AT_ONCE = ("bad-request", "not-leader", "status", "state")
Frame = Mapping[str, object]
Key = tuple[object, ...]


class Due(NamedTuple):
    """When something is over, the log index of what began it, and the number of the event in which
    the leader applied that."""

    at_ns: int
    begun: int
    event: int = -1


class Pending(NamedTuple):
    """A request in the log whose client waits: the term of its entry, connection and frame."""

    term: int
    connection: int
    frame: Frame


@dataclass(slots=True)
class LeadersView:
    """What one node knows as a leader; a restart or another leader ends it.

    due      of each lease, wait, session and lock-delay; next_ns: the earliest, or before it
    decided  those that were put into the log
    begun    (token, attempt) -> when this leader granted that hold, and in which event
    event    number of the present event of the trace
    term     the term in which it serves; from_ns: since when; led_ns: when it was last seen to
             lead: both on the run's clock
    heard    session -> when it last asked; spoke: connection -> sessions that asked on it
    pending  index -> the request that waits for it
    """

    event: int = -1
    term: int = 0
    from_ns: int = 0
    led_ns: int = 0
    since_ns: int = 0
    serving: bool = False
    next_ns: int = 0
    due: dict[Key, Due] = field(default_factory=dict)
    decided: dict[tuple[Key, int], None] = field(default_factory=dict)
    begun: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    heard: dict[int, int] = field(default_factory=dict)
    spoke: dict[int, dict[int, None]] = field(default_factory=dict)
    pending: dict[int, Pending] = field(default_factory=dict)

    # Requests and decisions

    def proposes(
        self,
        made: Iterable[tuple[int, int, Command]],
        asked: Sequence[tuple[int, Frame]],
        now_ns: int,
    ) -> None:
        """New entries (index, term, command): requests in the order in which they were read."""
        left = iter(asked)
        for index, term, command in made:
            if command is None:
                continue
            if command["op"] in DECISIONS:
                self._decides(command, now_ns)
                continue
            one = next((one for one in left if _asks(one[1], command)), None)
            if one is None:
                raise Departs(
                    "a command in the log is a request of a client",
                    f"requests read: {[dict(frame) for _, frame in asked]}",
                    "each of them once",
                    f"puts {dict(command)} into the log",
                )
            self.pending[index] = Pending(term, *one)
        for connection, frame in asked:
            if type(session := frame.get("session")) is int:
                self.heard[session] = now_ns
                self.spoke.setdefault(connection, {})[session] = None

    def _decides(self, command: Mapping[str, object], now_ns: int) -> None:
        key, begun = about(command)
        if command.get("why") == "dropped":
            session = cast(int, command["session"])
            due = Due(max(self.since_ns, self.heard.get(session, 0)) + GONE_NS, begun)
        else:
            due = self.due.get(key, Due(-1, -1))
        if not self.serving or not 0 <= due.at_ns <= now_ns or begun not in (due.begun, -1):
            when = f"over at {due.at_ns / 1e9:.6f} s" if due.at_ns >= 0 else "unknown"
            raise Departs(
                "an end is decided when its time has passed on the leader's clock",
                f"serving since {self.since_ns / 1e9:.6f} s; {_words(key)}: {when}",
                f"no {command['op']} at {now_ns / 1e9:.6f} s",
                f"puts {dict(command)} into the log",
                began=due.event,
                early_ns=max(0, due.at_ns - now_ns),
            )
        self.decided[key, due.begun] = None

    def overdue(self, table: Table, now_ns: int) -> None:
        """What is over by now, and still there, is decided by now."""
        if not self.serving or now_ns < self.next_ns:
            return
        there = {key: begun for key, begun, _ in lengths(table, 0)}
        self.due = {key: due for key, due in self.due.items() if there.get(key) == due.begun}
        for key, due in self.due.items():
            if due.at_ns <= now_ns and (key, due.begun) not in self.decided:
                raise Departs(
                    "an end is decided in the first step after its time",
                    f"{_words(key)}: over at {due.at_ns / 1e9:.6f} s",
                    "to put its end into the log",
                    f"a step at {now_ns / 1e9:.6f} s without it",
                    began=due.event,
                )
        left = (due.at_ns for due in self.due.values() if due.at_ns > now_ns)
        self.next_ns = min(left, default=now_ns + DAY_NS)

    # What it applies

    def serves(self, table: Table, now_ns: int, delay_ns: int) -> None:
        """It has applied the first entry of its term: all times begin."""
        self.since_ns, self.serving, self.next_ns = now_ns, True, now_ns
        self.due.clear()
        self.decided.clear()
        self.begun.clear()
        for key, begun, length in lengths(table, delay_ns):
            self.due[key] = Due(now_ns + length, begun, self.event)

    def applies(self, before: Table, table: Table, index: int, now_ns: int, delay_ns: int) -> None:
        """It has applied a command: what that began, begins now."""
        # A command leaves the parts of the table that it does not change as they are.
        for name, lock in table.locks.items():
            if before.locks.get(name) is lock:
                continue
            for key, begun, length in _lengths_of(name, lock, delay_ns):
                self._begins(key, begun, length, index, now_ns)
            for hold in lock.holds:
                if hold.renewed == index and not hold.renewals:
                    self.begun[hold.token, hold.attempt] = now_ns, self.event
        for number, session in table.sessions.items():
            if session.beat == index and session.ttl_ns:
                self._begins(("session", number), index, session.ttl_ns, index, now_ns)

    def _begins(self, key: Key, begun: int, length: int, index: int, now_ns: int) -> None:
        if begun == index:
            self.due[key] = Due(now_ns + length, begun, self.event)
            self.next_ns = min(self.next_ns, now_ns + length)

    # What it answers

    def request_of(self, connection: int, frame: Frame) -> int:
        """The index of the request that a reply answers. Departs, if there is none."""
        for index, one in self.pending.items():
            if (one.connection, one.frame.get("id")) == (connection, frame.get("id")):
                return index
        raise Departs(
            "a reply goes to its request",
            f"requests in the log that wait: {list(self.pending)}",
            "replies to those",
            f"{dict(frame)} on connection {connection}",
        )

    def ages(self, frame: Frame, now_ns: int) -> None:
        """The age of a hold, in a reply about it."""
        hold = cast("tuple[int, int]", (frame.get("token"), frame.get("attempt")))
        begun, event = self.begun.get(hold, (None, -1))
        if begun is None or frame["held_ns"] != now_ns - begun:
            raise Departs(
                "the age of a hold counts from its grant by this leader",
                f"granted at {begun} ns by the leader's clock",
                "its age, or none if another leader granted it",
                f"{dict(frame)} at {now_ns} ns",
                began=event,
            )


def about(command: Mapping[str, object]) -> tuple[Key, int]:
    """What a decision ends, and the index of what began that; -1: no matter which."""
    if command["op"] == "expire":
        key: Key = ("lease", command["lock"], command["token"], command["attempt"])
        return key, cast(int, command["renewal"])
    if command["op"] == "drop":
        return ("wait", command["session"], command["seq"]), -1
    if command["op"] == "reopen":
        return ("delay", command["lock"]), cast(int, command["since"])
    return ("session", command["session"]), cast(int, command["beat"])


def lengths(table: Table, delay_ns: int) -> Iterator[tuple[Key, int, int]]:
    """All that has a length: its key, the index of what began it, the length."""
    for name, lock in table.locks.items():
        yield from _lengths_of(name, lock, delay_ns)
    for number, session in table.sessions.items():
        if session.ttl_ns:
            yield ("session", number), session.beat, session.ttl_ns


def _lengths_of(name: str, lock: Lock, delay_ns: int) -> Iterator[tuple[Key, int, int]]:
    for hold in lock.holds:
        yield ("lease", name, hold.token, hold.attempt), hold.renewed, hold.ttl_ns
    for one in lock.queue:
        if one.wait_ns >= 0:
            yield ("wait", one.session, one.seq), one.came, one.wait_ns
    if lock.closed:
        yield ("delay", name), lock.closed, delay_ns


def state_of(view: Applying, frame: Frame) -> tuple[list[str], list[Frame]]:
    """What a client that asks about its holds and waits is answered."""
    session = view.sessions.get(cast(int, frame["session"]))
    waits: list[Frame] = []
    for seq in cast("list[int]", frame["waits"]):
        known = session.answers.get(seq) if session else {"is": "no-session"}
        if known is None:
            known = {"is": "unknown"}
        elif known["is"] == "queued":
            name, attempt = cast(str, known["lock"]), cast(int, known["attempt"])
            lock = view.locks.get(name, FREE)
            one = next(one for one in lock.queue if one.attempt == attempt)
            free = view.order == "racing" and view.fits(view.seen(name), one)
            known = {**known, "place": view.place(name, attempt), "free": free}
        waits.append(known)
    holds = []
    for name, token, attempt in cast("list[tuple[str, int, int]]", frame["holds"]):
        held = view.locks.get(name, FREE).holds
        there = any((hold.token, hold.attempt) == (token, attempt) for hold in held)
        holds.append("held" if there else view.past.get((name, token, attempt), "unknown"))
    return holds, waits


def tells(frame: Frame, notices: Iterable[Notice], sessions: Mapping[int, None]) -> bool:
    """Whether a notice to these sessions is one of those."""
    event = frame["event"]
    if event == "lost":
        details: tuple[object, ...] = tuple(
            frame.get(name) for name in ("lock", "attempt", "token", "reason")
        )
    else:
        details = (frame.get("seq"), *([frame.get("is")] if event == "settled" else []))
    return any(
        (one.event, one.details) == (event, details) and one.session in sessions for one in notices
    )


def _asks(frame: Frame, command: Mapping[str, object]) -> bool:
    return all(frame.get(name) == value for name, value in command.items())


def _words(key: Key) -> str:
    return " ".join(map(str, key))
