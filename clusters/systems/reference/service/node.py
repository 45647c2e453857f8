"""One node of the service: consensus, locks and the leader's clocks, without I/O.

`step(now_ns, inputs)` handles a batch and returns the effects, in order: saves made durable first,
then the rest. The leader counts leases, waits and sessions on its own monotonic clock, from the
time at which it applied them, and a new leader restarts them in full: a change of leader may extend
a lease, never shorten it. Every expiry goes through the log.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from holdfast.clusters.systems.reference.consensus.messages import (
    Appended,
    Durable,
    Entry,
    Message,
    Save,
    Snapshot,
)
from holdfast.clusters.systems.reference.consensus.raft import Consensus, Role, Timing
from holdfast.clusters.systems.reference.locks.hold_age import Ages
from holdfast.clusters.systems.reference.locks.state import (
    Beat,
    Closed,
    Command,
    Ended,
    Event,
    Freed,
    Gone,
    Hold,
    Queued,
    Settled,
    Started,
    Waiter,
)
from holdfast.clusters.systems.reference.locks.state_machine import Locks
from holdfast.clusters.systems.reference.options import ReferenceOptions
from holdfast.clusters.systems.reference.service.request_validation import UNLOGGED, command
from holdfast.clusters.systems.reference.service.timers import Timers

_LEADER = Role.LEADER
GONE_NS = 3_000_000_000
"""A waiter whose client has no connection for this time leaves the queue."""
BEHIND = 4096
"""Limit on the committed commands that a follower defers: < 0.1 s of work when it becomes the
leader, and no more than after a restart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A request of a client on its connection; the response has the same `frame["id"]`.

    came_ns   when it was read, on the clock of `step`; -1: unknown
    read_ns   the same on the run's clock, which all processes of a host share
    """

    connection: int
    frame: Mapping[str, object]
    came_ns: int = -1
    read_ns: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """A client's connection is closed."""

    connection: int


CLOCKLESS: Mapping[str, Callable[[], int]] = {}

Input = Message | Asked | Left


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeEffects:
    """Effects to carry out in this order. due_ns: step again then, at the latest.

    timed   the replies that report under "commit_ns" the time from the proposal of their request to
            their sending; with the time of the proposal
    """

    saves: tuple[Save, ...]
    sends: tuple[tuple[str, Message], ...]
    replies: tuple[tuple[int, Mapping[str, object]], ...]
    due_ns: int
    timed: tuple[tuple[dict[str, object], int], ...] = ()


class LockNode:
    """State of one node. Connections are numbers that the server assigns and never reuses.

    The class attributes are replaced by `mutants`; `clocks` is for them only.
    """

    locks_type = Locks
    consensus_type = Consensus
    ages_type = Ages
    clocks: Mapping[str, Callable[[], int]] = CLOCKLESS

    def __init__(
        self,
        *,
        name: str,
        peers: Sequence[str],
        options: ReferenceOptions,
        rng: random.Random,
        durable: Durable,
        now_ns: int,
    ) -> None:
        timing = Timing(election_ns=options.election_ns, heartbeat_ns=options.heartbeat_ns)
        self.consensus = self.consensus_type(
            name=name, peers=peers, timing=timing, rng=rng, durable=durable, now_ns=now_ns
        )
        self._locks = self.locks_type(order=options.queue, delays=bool(options.delay_ns))
        if durable.snapshot.index:
            self._locks = self.locks_type.load(durable.snapshot.state)
        self._behind: list[tuple[int, Entry]] = []
        self.serving = False
        self._every = options.snapshot_every
        self._delay_ns = options.delay_ns
        self._pending: dict[int, tuple[int, int, object, tuple[int, int], int]] = {}
        self._timed: list[tuple[dict[str, object], int]] = []
        self._connections: dict[int, int] = {}
        self._timers = self.timers()
        self._ages = self.ages_type()
        self._replies: list[tuple[int, Mapping[str, object]]] = []

    def timers(self) -> Timers:
        """New timers, none of them set."""
        return Timers()

    @property
    def locks(self) -> Locks:
        """The locks after every command that is committed here.

        A follower applies commands on access, or when they are many: only a leader's clients
        receive their single results.
        """
        if self._behind:
            self._catch_up()
        return self._locks

    def presses(self, item: Input) -> bool:
        """Whether it requires a step; else it can wait for the next one."""
        return type(item) is not Appended or self.consensus.presses(item)

    def rests(self, now_ns: int) -> bool:
        """Whether a step without input would do nothing; for a leader always False."""
        consensus, timer_ns = self.consensus, self._timers.next_ns()
        return (
            consensus.role is not _LEADER
            and now_ns < consensus.due_ns
            and (timer_ns is None or now_ns < timer_ns)
            and consensus.applied - consensus.log.base < self._every
        )

    def step(self, now_ns: int, inputs: Sequence[Input] = ()) -> NodeEffects:
        """Handles the inputs since the last step; time passes even without any."""
        consensus, timers = self.consensus, self._timers
        if consensus.applied - consensus.log.base >= self._every:
            consensus.compact(self.locks.dump())
        for item in inputs:
            if isinstance(item, Asked):
                self._on_asked(now_ns, item)
            elif isinstance(item, Left):
                self._on_left(now_ns, item.connection)
            elif item.sender in consensus.peers:
                consensus.step(now_ns, item)
        consensus.tick(now_ns)
        timer_ns = timers.next_ns()
        if timer_ns is not None and timer_ns <= now_ns:
            for due in timers.due(now_ns):
                self._on_due(due)
        effects = consensus.take(now_ns)
        for ready in effects.ready:
            self._apply(now_ns, ready)
        if (self.serving or self._pending) and consensus.role is not _LEADER:
            self._depose()
        replies: tuple[tuple[int, Mapping[str, object]], ...] = ()
        if self._replies:
            replies = tuple(self._replies)
            self._replies.clear()
        timed: tuple[tuple[dict[str, object], int], ...] = ()
        if self._timed:
            timed = tuple(self._timed)
            self._timed.clear()
        timer_ns, due_ns = timers.next_ns(), consensus.due_ns
        if timer_ns is not None and timer_ns < due_ns:
            due_ns = timer_ns
        return NodeEffects(
            saves=effects.saves, sends=effects.sends, replies=replies, due_ns=due_ns, timed=timed
        )

    # Clients

    def _on_asked(self, now_ns: int, item: Asked) -> None:
        connection, frame = item.connection, item.frame
        number = frame.get("id")
        asked, wrong = command(frame)
        if wrong:
            self._reply(connection, number, {"is": "bad-request", "why": wrong})
            return
        if asked["op"] == "status":
            self._reply(connection, number, self._status())
            return
        leads = self.consensus.role is _LEADER
        if not leads or (asked["op"] in UNLOGGED and not self.serving):
            self._reply(connection, number, {"is": "not-leader", "leader": self.consensus.leader})
            return
        if "session" in asked:
            self._connections[asked["session"]] = connection
        if asked["op"] == "ask":
            self._reply(connection, number, self._state_of(asked))
            return
        place = self.consensus.propose(asked)
        assert place is not None, "a leader can propose"
        index, term = place
        came_ns = item.came_ns if asked["op"] == "acquire" else -1
        self._pending[index] = (term, connection, number, (came_ns, item.read_ns), now_ns)

    def _on_left(self, now_ns: int, connection: int) -> None:
        for session in [s for s, c in self._connections.items() if c == connection]:
            del self._connections[session]
            self._timers.set(("gone", session), now_ns + GONE_NS, ("gone", session))

    def _state_of(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The state of a client's holds and waits."""
        session = self.locks.sessions.get(asked["session"])
        if session is None:
            waits: list[Mapping[str, Any]] = [{"is": "no-session"} for _ in asked["waits"]]
        else:
            waits = [self._wait_state(session.answers.get(seq)) for seq in asked["waits"]]
        holds = [self.locks.fate(*held) for held in asked["holds"]]
        return {"is": "state", "holds": holds, "waits": waits}

    def _wait_state(self, known: Mapping[str, Any] | None) -> Mapping[str, object]:
        if known is None:
            return {"is": "unknown"}
        if known["is"] != "queued":
            return known
        queue = self.locks.locks[known["lock"]].queue
        waiter = next(w for w in queue if w.attempt == known["attempt"])
        return {**known, "place": self.locks.place(waiter), "free": self.locks.free_to(waiter)}

    def _status(self) -> dict[str, object]:
        """Role and applied state of this node; `behind` commands are deferred."""
        node = self.consensus
        return {
            "is": "status",
            "name": node.name,
            "role": str(node.role),
            "leader": node.leader,
            "term": node.term,
            "commit": node.commit,
            "serving": self.serving,
            "locks": len(self._locks.locks),
            "sessions": len(self._locks.sessions),
            "behind": len(self._behind),
        }

    def _reply(self, connection: int, number: object, answer: Mapping[str, object]) -> None:
        self._replies.append((connection, {"id": number, **answer}))

    def _tell(self, session: int, event: Mapping[str, object]) -> None:
        connection = self._connections.get(session)
        if connection is not None:
            self._replies.append((connection, event))

    # The log

    def _apply(self, now_ns: int, ready: tuple[int, Entry] | Snapshot) -> None:
        if isinstance(ready, Snapshot):
            self._behind.clear()
            self._locks = self.locks_type.load(ready.state)
            return
        index, entry = ready
        if not self.serving and self.consensus.role is not _LEADER and index not in self._pending:
            self._behind.append(ready)
            if len(self._behind) >= BEHIND:
                self._catch_up()
            return
        answer, events = self.locks.apply(index, _command(entry))
        if entry.command is None and entry.term == self.consensus.term:
            self._reign(now_ns)
        if self.serving:
            for event in events:
                self._on_event(now_ns, event)
        if index in self._pending:
            term, connection, number, (came_ns, read_ns), proposed_ns = self._pending.pop(index)
            if term != entry.term:
                self._reply(connection, number, {"is": "deposed"})
            elif came_ns < 0:
                asks = entry.command is not None and entry.command["op"] == "holder"
                reply = self._ages.told(answer, now_ns) if asks else answer
                self._reply(connection, number, reply)
            else:
                frame = {"id": number, **answer, "read_ns": read_ns}
                frame["coord_ns"] = proposed_ns - came_ns
                self._replies.append((connection, frame))
                self._timed.append((frame, proposed_ns))

    def _catch_up(self) -> None:
        """Applies all that is committed, in order; no client waits for the results."""
        behind, self._behind = self._behind, []
        for index, entry in behind:
            self._locks.apply(index, _command(entry))

    def _reign(self, now_ns: int) -> None:
        """Restarts every timer in full: this leader knows only that it applied all before."""
        if self.consensus.role is not _LEADER:
            return
        self.serving = True
        self._timers.clear()
        self._ages.clear()
        for name, lock in self.locks.locks.items():
            if lock.closed:
                self._on_event(now_ns, Closed(lock=name, since=lock.closed))
            for hold in lock.holds:
                self._on_event(now_ns, Started(hold=hold))
            for waiter in lock.queue:
                self._on_event(now_ns, Queued(waiter=waiter))
                gone = ("gone", waiter.session)
                self._timers.set(gone, now_ns + GONE_NS, gone)
        self._ages.taken_over()
        for session in self.locks.sessions.values():
            if session.ttl_ns:
                beat = Beat(session=session.number, ttl_ns=session.ttl_ns, beat=session.beat)
                self._on_event(now_ns, beat)

    def _depose(self) -> None:
        """Responds to pending requests of unknown outcome, whose entries may still be committed."""
        for _, connection, number, _, _ in self._pending.values():
            self._reply(connection, number, {"is": "deposed"})
        self._pending.clear()
        self._connections.clear()
        self._timers.clear()
        self._ages.clear()
        self.serving = False

    def _on_event(self, now_ns: int, event: Event) -> None:
        match event:
            case Started(hold=hold):
                self._ages.counted(hold, now_ns)
                self._timers.set(hold_name(hold), now_ns + hold.ttl_ns, expiry(hold))
            case Ended(hold=hold, reason=reason):
                self._timers.drop(hold_name(hold))
                self._ages.ended(hold)
                if reason not in ("released", "abandoned"):
                    lost = {"lock": hold.lock, "attempt": hold.attempt, "token": hold.token}
                    self._tell(hold.session, {"event": "lost", "reason": reason, **lost})
            case Queued(waiter=waiter):
                if waiter.wait_ns >= 0:
                    seen = {"op": "drop", "session": waiter.session, "seq": waiter.seq}
                    seen["why"] = "timed-out"
                    self._timers.set(_name(waiter), now_ns + waiter.wait_ns, seen)
            case Settled(waiter=waiter, answer=answer):
                self._timers.drop(_name(waiter))
                self._tell(waiter.session, {"event": "settled", "seq": waiter.seq, **answer})
            case Freed(waiter=waiter):
                self._tell(waiter.session, {"event": "freed", "seq": waiter.seq})
            case Closed(lock=lock, since=since):
                reopen = {"op": "reopen", "lock": lock, "since": since}
                self._timers.set(("closed", lock), now_ns + self._delay_ns, reopen)
            case Beat(session=session, ttl_ns=ttl_ns, beat=beat):
                seen = {"op": "expire-session", "session": session, "beat": beat}
                self._timers.set(("session", session), now_ns + ttl_ns, seen)
            case Gone(session=session):
                self._timers.drop(("session", session))

    def _on_due(self, due: Any) -> None:
        if isinstance(due, dict):
            self.consensus.propose(due)
            return
        session = due[1]
        if session in self._connections:
            return
        for waiter in self.locks.waiters(session):
            drop = {"op": "drop", "session": session, "seq": waiter.seq, "why": "dropped"}
            self.consensus.propose(drop)


def _command(entry: Entry) -> Command | None:
    """The command of an entry: it was validated before it was proposed (`requests`)."""
    return cast("Command | None", entry.command)


def expiry(hold: Hold) -> dict[str, str | int]:
    """The command that ends a hold, unless it is renewed before."""
    return {
        "op": "expire",
        "lock": hold.lock,
        "attempt": hold.attempt,
        "token": hold.token,
        "renewal": hold.renewal,
    }


def hold_name(hold: Hold) -> tuple[str, str, int, int]:
    """The name of a hold's timer."""
    return ("hold", hold.lock, hold.token, hold.attempt)


def _name(waiter: Waiter) -> tuple[str, int, int]:
    return ("wait", waiter.session, waiter.seq)
