"""Specification of the lock table: what each committed command does to it and how it is answered.

A table is a value. `after(table, index, command)` is the next table, the answer to the client, and
the notices to clients. Nothing here has a clock: that an end of a lease is due is a matter of the
leader (`leadership`). Not specified: the text of a deadlock's path, and who is named to a client
whose try is refused; the limits of 4096 sessions, ended holds and locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, TypedDict, cast

Order = Literal["fifo", "racing", "priority"]
Answer = Mapping[str, object]
EXCLUSIVE, SHARED, PERMITS = range(3)


class Request(NamedTuple):
    """One acquire, while it waits and as part of its hold.

    passed   grants to others while it waited, in priority order; came: index of its command
    newest   it is granted only while this is the newest token of the lock; -1: always
    """

    session: int
    seq: int
    passed: int
    lock: str
    attempt: int
    owner: str
    ttl_ns: int
    wait_ns: int
    came: int
    mode: int = EXCLUSIVE
    permits: int = 1
    limit: int = 1
    metadata: str = ""
    reenter: bool = False
    newest: int = -1
    priority: int = 0


class Hold(NamedTuple):
    """One grant in force. renewed: index of the command that granted or last renewed it."""

    attempt: int
    token: int
    session: int
    ttl_ns: int
    renewed: int
    renewals: int
    request: Request


class Lock(NamedTuple):
    """closed: index at which its holder died, from which the lock-delay runs; 0: open."""

    holds: tuple[Hold, ...] = ()
    queue: tuple[Request, ...] = ()
    closed: int = 0


class Session(NamedTuple):
    """One client. beat: index of its last heartbeat; done: requests below it are finished."""

    ttl_ns: int
    beat: int
    done: int
    answers: Mapping[int, Answer]


class Table(NamedTuple):
    """The whole replicated state after one command. newest: lock -> its newest token."""

    locks: Mapping[str, Lock]
    sessions: Mapping[int, Session]
    token: int
    newest: Mapping[str, int]


EMPTY = Table({}, {}, 0, {})
FREE = Lock()


class Command(TypedDict, total=False):
    """A client's request, or the leader's decision that a time is over (`leadership`)."""

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
    terms: Mapping[str, object] | None
    target: int
    drop: bool
    why: str
    sequencer: str
    renewal: int
    since: int
    beat: int


class Notice(NamedTuple):
    """What a client is notified of without a request: `lost`, `settled` or `freed`."""

    event: str
    session: int
    details: tuple[object, ...]


class Outcome(NamedTuple):
    """What a command does. ended: (lock, token, attempt) -> reason of the holds that it ends."""

    table: Table
    answer: Answer
    notices: list[Notice]
    ended: Mapping[tuple[str, int, int], str]


def on_one_chain(one: str, other: str) -> bool:
    """Whether two paths cover each other: equal, or one is an ancestor of the other."""
    short, long = sorted((one, other), key=len)
    return short == long or long.startswith(short.rstrip("/") + "/")


class Applying:
    """One command being applied to a table."""

    def __init__(
        self,
        before: Table,
        index: int,
        order: Order,
        delays: bool,
        past: Mapping[tuple[str, int, int], str],
    ) -> None:
        self.index, self.order, self.delays, self.past = index, order, delays, past
        self.locks, self.sessions = dict(before.locks), dict(before.sessions)
        self.token, self.newest = before.token, before.newest
        self.notices: list[Notice] = []
        self.ended: dict[tuple[str, int, int], str] = {}

    # What a request sees

    def chain(self, name: str) -> list[str]:
        """The lock itself, and for a path every used lock that its subtree overlaps."""
        if not name.startswith("/"):
            return [name]
        near = (n for n in self.locks if n != name and n.startswith("/") and on_one_chain(n, name))
        return [name, *near]

    def seen(self, name: str) -> Lock:
        """All holds, waiters and closings that concern a lock, as one lock."""
        if not name.startswith("/"):
            return self.locks.get(name, FREE)
        chain = [self.locks.get(one, FREE) for one in self.chain(name)]
        waiting = sorted((r for lock in chain for r in lock.queue), key=lambda r: r.came)
        holds = tuple(hold for lock in chain for hold in lock.holds)
        return Lock(holds, tuple(waiting), max(lock.closed for lock in chain))

    def fits(self, lock: Lock, request: Request) -> bool:
        """Exclusive excludes all; readers exclude writers; permits are limited in number."""
        if lock.closed or not lock.holds:
            return not lock.closed
        if request.mode == EXCLUSIVE or any(h.request.mode != request.mode for h in lock.holds):
            return False
        taken = sum(hold.request.permits for hold in lock.holds) + request.permits
        same = all(hold.request.limit == request.limit for hold in lock.holds)
        return request.mode == SHARED or (same and taken <= request.limit)

    def reenters(self, lock: Lock, request: Request) -> bool:
        """Whether its own session alone holds, and it asked for reentry."""
        mine = [hold.session == request.session for hold in lock.holds]
        return request.reenter and bool(mine) and all(mine)

    def in_order(self, queue: tuple[Request, ...]) -> tuple[Request, ...]:
        """First come, first served; or by priority, to which every grant to another adds one."""
        if self.order != "priority":
            return queue
        return tuple(sorted(queue, key=lambda r: -(r.priority + r.passed)))

    def place(self, name: str, attempt: int) -> int:
        """Number of waiters ahead of an attempt; -1: it does not wait."""
        queue = [request.attempt for request in self.in_order(self.seen(name).queue)]
        return queue.index(attempt) if attempt in queue else -1

    def held(self, command: Command) -> Hold | None:
        """A hold is named by lock, attempt and token, by nothing else."""
        for hold in self.locks.get(command["lock"], FREE).holds:
            if hold.attempt == command["attempt"] and hold.token == command["token"]:
                return hold
        return None

    def blockers(self, request: Request) -> Iterator[int]:
        """Sessions that a waiter waits for: holders that exclude it, and waiters ahead of it."""
        lock = self.seen(request.lock)
        if request.mode == PERMITS:
            return
        for hold in lock.holds:
            if EXCLUSIVE in (hold.request.mode, request.mode):
                yield hold.session
        queue = lock.queue if request in lock.queue else (*lock.queue, request)
        for other in self.in_order(queue) if self.order != "racing" else ():
            if other == request:
                break
            yield other.session

    def closes_a_cycle(self, request: Request) -> bool:
        """Whether its session would wait for itself through others."""
        if any(hold.session == request.session for hold in self.seen(request.lock).holds):
            return False
        waiting = [r for lock in self.locks.values() for r in lock.queue]
        met: dict[int, None] = {}
        left = [session for session in self.blockers(request) if session != request.session]
        while left:
            session = left.pop()
            if session == request.session:
                return True
            if session not in met:
                met[session] = None
                left += [s for r in waiting if r.session == session for s in self.blockers(r)]
        return False

    # Actions on the table

    def grant(self, request: Request) -> Answer:
        """A new hold. Its token is newer than all; readers and reentries share one."""
        beside = self.seen(request.lock).holds
        if beside and request.mode != PERMITS:
            token = beside[0].token
        else:
            self.token = token = self.token + 1
            self.newest = {**self.newest, request.lock: token}
        hold = Hold(request.attempt, token, request.session, request.ttl_ns, self.index, 0, request)
        lock = self.locks.get(request.lock, FREE)
        self.locks[request.lock] = lock._replace(holds=(*lock.holds, hold))
        answer = {
            "is": "granted",
            "lock": request.lock,
            "attempt": request.attempt,
            "token": token,
            "ttl_ns": request.ttl_ns,
        }
        self.answered(request, answer)
        return answer

    def answered(self, request: Request, answer: Answer) -> None:
        """The answer is kept for retries of the request, until its client has finished it."""
        session = self.sessions[request.session]
        if request.seq >= session.done:
            answers = {**session.answers, request.seq: answer}
            self.sessions[request.session] = session._replace(answers=answers)

    def changed(self, request: Request) -> Answer | None:
        """The refusal of a request whose condition on the newest token does not hold."""
        newest = self.newest.get(request.lock, 0)
        return {"is": "changed", "newest": newest} if request.newest not in (-1, newest) else None

    def settle(self, request: Request) -> None:
        """A waiter's turn has come: it leaves the queue with its grant, or with a refusal."""
        self.unwait(request)
        if answer := self.changed(request):
            self.answered(request, answer)
        else:
            answer = self.grant(request)
            for one in self.chain(request.lock) if self.order == "priority" else ():
                queue = tuple(r._replace(passed=r.passed + 1) for r in self.locks[one].queue)
                self.locks[one] = self.locks[one]._replace(queue=queue)
        self.notices.append(Notice("settled", request.session, (request.seq, answer["is"])))

    def unwait(self, request: Request) -> None:
        """Out of its queue."""
        lock = self.locks[request.lock]
        left = tuple(r for r in lock.queue if r[:2] != request[:2])
        self.locks[request.lock] = lock._replace(queue=left)

    def serve(self, name: str) -> None:
        """Grants what the queue's first is due, again and again; a racing client is notified."""
        for one in self.chain(name):
            if one not in self.locks:
                continue
            if self.order == "racing":
                for request in self.locks[one].queue:
                    if self.fits(self.seen(one), request):
                        freed = Notice("freed", request.session, (request.seq,))
                        self.notices.append(freed)
            while first := self.next_of(one):
                self.settle(first)
            if self.locks[one] == FREE:
                del self.locks[one]

    def next_of(self, name: str) -> Request | None:
        """The first in the order of service, if it waits for this lock and may have it now."""
        lock = self.seen(name)
        if self.order == "racing" or not lock.queue:
            return None
        first = self.in_order(lock.queue)[0]
        may = self.fits(lock, first) or self.reenters(lock, first)
        return first if may and first.lock == name else None

    def end(self, hold: Hold, reason: str) -> None:
        """A hold is over; after its client's presumed death the lock is closed for the delay."""
        name = hold.request.lock
        lock = self.locks[name]
        left = tuple(other for other in lock.holds if other is not hold)
        dead = self.delays and reason in ("session", "expired")
        self.locks[name] = Lock(left, lock.queue, self.index if dead else lock.closed)
        self.ended[name, hold.token, hold.attempt] = reason
        if reason not in ("released", "abandoned"):
            lost = (name, hold.attempt, hold.token, reason)
            self.notices.append(Notice("lost", hold.session, lost))
        self.serve(name)

    def give_up(self, session: int, seqs: list[int], why: str) -> None:
        """Waiters leave without a grant: all of them before the next grant."""
        waiting = [r for lock in self.locks.values() for r in lock.queue if r.session == session]
        left = [request for request in waiting if request.seq in seqs]
        for request in left:
            self.unwait(request)
            self.answered(request, {"is": why})
            self.notices.append(Notice("settled", session, (request.seq, why)))
        for name in dict.fromkeys(request.lock for request in left):
            self.serve(name)

    def end_session(self, number: int, why: str) -> None:
        """With a session end its waits, then its holds."""
        waiting = [r.seq for lock in self.locks.values() for r in lock.queue if r.session == number]
        self.give_up(number, waiting, "session-ended")
        for hold in [hold for lock in self.locks.values() for hold in lock.holds]:
            if hold.session == number:
                self.end(hold, why)
        del self.sessions[number]

    # Commands

    def once(self, command: Command) -> Answer:
        """A numbered request has its effect once: a retry gets the answer that was kept."""
        number, seq = command["session"], command["seq"]
        session = self.sessions.pop(number, None)
        if session is None:
            return {"is": "no-session"}
        done, known = max(session.done, command["done"]), session.answers
        kept = {n: answer for n, answer in known.items() if n >= done}
        self.sessions[number] = session._replace(done=done, answers=kept)
        waits = [n for n in known if n < done and known[n]["is"] == "queued"]
        self.give_up(number, waits, "given-up")
        if seq < done:
            return {"is": "stale"}
        if seq in kept:
            return self.again(self.sessions[number].answers[seq], number, seq)
        answer = HANDLERS[command["op"]](self, command)
        session = self.sessions[number]
        self.sessions[number] = session._replace(answers={**session.answers, seq: answer})
        return answer

    def again(self, known: Answer, session: int, seq: int) -> Answer:
        """A retry. Of a wait: its place; a racing client takes a lock that is free."""
        if known["is"] != "queued":
            return known
        queue = self.locks[str(known["lock"])].queue
        request = next(r for r in queue if (r.session, r.seq) == (session, seq))
        if self.order == "racing" and self.fits(self.seen(request.lock), request):
            self.settle(request)
            if not self.locks[request.lock].holds:
                self.serve(request.lock)
            return self.sessions[session].answers[seq]
        return {**known, "place": self.place(request.lock, request.attempt)}

    def on_acquire(self, command: Command) -> Answer:
        """Granted at once, refused, or queued."""
        given: dict[str, object] = {**Request._field_defaults, **command}
        given |= {**(command.get("terms") or {}), "passed": 0, "came": self.index}
        request = Request._make(given[name] for name in Request._fields)
        lock = self.seen(request.lock)
        if refused := self.changed(request):
            return refused
        if self.reenters(lock, request) or (
            self.fits(lock, request) and (self.order == "racing" or not lock.queue)
        ):
            return self.grant(request)
        if request.wait_ns == 0:
            return {"is": "held"}
        if self.closes_a_cycle(request):
            return {"is": "deadlock"}
        own = self.locks.get(request.lock, FREE)
        self.locks[request.lock] = own._replace(queue=(*own.queue, request))
        place = self.place(request.lock, request.attempt)
        return {"is": "queued", "lock": request.lock, "attempt": request.attempt, "place": place}

    def on_renew(self, command: Command) -> Answer:
        """The lease starts again."""
        hold = self.held(command)
        if hold is None:
            return self.not_holder(command)
        lock, ttl_ns = self.locks[command["lock"]], command["ttl_ns"]
        anew = hold._replace(ttl_ns=ttl_ns, renewed=self.index, renewals=hold.renewals + 1)
        holds = tuple(anew if other is hold else other for other in lock.holds)
        self.locks[command["lock"]] = lock._replace(holds=holds)
        return {"is": "renewed", "token": hold.token, "ttl_ns": ttl_ns}

    def on_release(self, command: Command) -> Answer:
        """Ends one entry; `left` counts the others of its session."""
        hold = self.held(command)
        if hold is None:
            return self.not_holder(command)
        entries = self.locks[command["lock"]].holds
        left = sum(other.session == hold.session for other in entries) - 1
        self.end(hold, "released")
        return {"is": "released", "token": hold.token, "left": left}

    def not_holder(self, command: Command) -> Answer:
        """With the reason why that hold ended."""
        name = command["lock"], command["token"], command["attempt"]
        return {"is": "not-holder", "reason": self.past.get(name, "unknown")}

    def on_cancel(self, command: Command) -> Answer:
        """Ends a request of the session, even one that has not come yet; drop: and its grant."""
        number, target = command["session"], command["target"]
        session = self.sessions[number]
        if target < session.done:
            return {"is": "stale"}
        known = session.answers.get(target)
        if known is None or known["is"] == "queued":
            self.give_up(number, [target], "cancelled")
            session = self.sessions[number]
            cancelled: Answer = {"is": "cancelled"}
            answers = {**session.answers, target: cancelled}
            self.sessions[number] = session._replace(answers=answers)
            return cancelled
        if known["is"] == "granted" and command["drop"]:
            hold = self.held(cast(Command, known))
            if hold is not None:
                self.end(hold, "abandoned")
        return known

    def on_open(self, command: Command) -> Answer:
        """A session, known by the index of this command."""
        self.sessions[self.index] = Session(command["ttl_ns"], self.index, 0, {})
        return {"is": "opened", "session": self.index, "ttl_ns": command["ttl_ns"]}

    def on_beat(self, command: Command) -> Answer:
        """A heartbeat: the session lives for another ttl."""
        number = command["session"]
        session = self.sessions.pop(number, None)
        if session is None:
            return {"is": "no-session"}
        self.sessions[number] = session._replace(beat=self.index)
        return {"is": "alive", "session": number, "ttl_ns": session.ttl_ns}

    def on_close(self, command: Command) -> Answer:
        """The client ends its session."""
        if command["session"] not in self.sessions:
            return {"is": "no-session"}
        self.end_session(command["session"], "closed")
        return {"is": "closed"}

    def on_holder(self, command: Command) -> Answer:
        """Who holds, how many wait, and how many of them before this attempt."""
        lock = self.seen(command["lock"])
        place = self.place(command["lock"], command["attempt"])
        waits = {"length": len(lock.queue), "place": place}
        if not lock.holds:
            return {"is": "free", **waits}
        hold = lock.holds[0]
        names = {"owner": hold.request.owner, "attempt": hold.attempt, "token": hold.token}
        more = {"renewals": hold.renewals, "metadata": hold.request.metadata}
        return {"is": "held-by", **names, "ttl_ns": hold.ttl_ns, **more, **waits}

    def on_check(self, command: Command) -> Answer:
        """Whether the hold that a sequencer "TOKEN.exclusive.LOCK" names is in force."""
        token, mode, name = [*command["sequencer"].split(".", 2), "", ""][:3]
        holds = self.locks.get(name, FREE).holds if mode == "exclusive" else ()
        good = any(str(hold.token) == token for hold in holds)
        return {"is": "in-force" if good else "not-in-force"}

    def on_force(self, command: Command) -> Answer:
        """An operator ends one hold, or all of a lock (token -1)."""
        holds = self.locks.get(command["lock"], FREE).holds
        ended = [hold for hold in holds if command["token"] in (-1, hold.token)]
        for hold in ended:
            self.end(hold, "revoked")
        if not ended:
            return {"is": "not-held"}
        return {"is": "forced", "token": ended[0].token, "owner": ended[0].request.owner}

    # Decisions of the leader: each counts only if nothing came between it and what it is about

    def on_expire(self, command: Command) -> Answer:
        """A lease is over, unless it was renewed."""
        hold = self.held(command)
        if hold is None or hold.renewed != command["renewal"]:
            return OVERTAKEN
        self.end(hold, "expired")
        return {"is": "expired"}

    def on_drop(self, command: Command) -> Answer:
        """A wait is over: its time is, or its client is gone."""
        session = self.sessions.get(command["session"])
        known = session.answers.get(command["seq"]) if session else None
        if known is None or known["is"] != "queued":
            return OVERTAKEN
        self.give_up(command["session"], [command["seq"]], command["why"])
        return {"is": "dropped"}

    def on_reopen(self, command: Command) -> Answer:
        """The lock-delay is over."""
        lock = self.locks.get(command["lock"], FREE)
        if not lock.closed or lock.closed != command["since"]:
            return OVERTAKEN
        self.locks[command["lock"]] = lock._replace(closed=0)
        self.serve(command["lock"])
        return {"is": "reopened"}

    def on_expire_session(self, command: Command) -> Answer:
        """A session is over, unless a heartbeat came."""
        session = self.sessions.get(command["session"])
        if session is None or session.beat != command["beat"]:
            return OVERTAKEN
        self.end_session(command["session"], "session")
        return {"is": "expired"}


OVERTAKEN: Answer = {"is": "overtaken"}
NUMBERED = ("acquire", "renew", "release", "cancel")
HANDLERS: Mapping[str, Callable[[Applying, Command], Answer]] = {
    "acquire": Applying.on_acquire,
    "renew": Applying.on_renew,
    "release": Applying.on_release,
    "cancel": Applying.on_cancel,
    "open": Applying.on_open,
    "beat": Applying.on_beat,
    "close": Applying.on_close,
    "holder": Applying.on_holder,
    "check": Applying.on_check,
    "force": Applying.on_force,
    "expire": Applying.on_expire,
    "drop": Applying.on_drop,
    "reopen": Applying.on_reopen,
    "expire-session": Applying.on_expire_session,
}


def after(
    table: Table,
    index: int,
    command: Command | None,
    *,
    order: Order,
    delays: bool,
    past: Mapping[tuple[str, int, int], str],
) -> Outcome:
    """What a command does to a table. None: the empty entry that opens a term.

    past   (lock, token, attempt) -> reason, of every hold that ended before
    """
    if command is None:
        return Outcome(table, {"is": "noop"}, [], {})
    at = Applying(table, index, order, delays, past)
    if command["op"] in NUMBERED:
        answer = at.once(command)
    else:
        answer = HANDLERS[command["op"]](at, command)
    return Outcome(Table(at.locks, at.sessions, at.token, at.newest), answer, at.notices, at.ended)
