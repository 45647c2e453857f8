"""A small lock service that keeps its promises, in the ways that real ones differ; and mutants.

It answers a request that arrives twice as it did before, grants a queued attempt whose client has
long given up, and may end a lease late, or as early as its declared slip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from tests.checkers.brute.world import World

NEVER = 1 << 40
Reply = Callable[["Answer"], None]
Tell = Callable[[int, Op, int], None]
"""(process, LOST or CLOSED, attempt)"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """How a service works, and what is wrong with it.

    renew        "owned": only the holder's; "upsert": takes a free lock again
    release      "once": ok to the holder alone; "always": ok to whoever
                 where one of the two says something, no attempt is let in twice
    order        "fifo": a queue; "racing": clients ask again and again
    renewed      bound "lease": a library renews, and its user is given no end of a hold
    lease_from   "grant", or "asking": a queued attempt's lease runs while it waits
    fault        "" or the name of a mutant
    """

    bound: str
    renew: str = "owned"
    release: str = "once"
    order: str = "fifo"
    # Not in its name, from which the histories of a seed are drawn.
    renewed: bool = field(default=False, repr=False)
    lease_from: str = "grant"
    tokens: bool = True
    slip: int = 0
    fault: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the service says. waiting: not yet decided, more will come."""

    status: Status
    token: int = NO_TOKEN
    ttl: int = 0
    waiting: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """One request of a client. number: the same if it arrives twice."""

    number: int
    process: int
    session: int
    lock: str
    attempt: int
    ttl: int = 0
    queue: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """A lock in somebody's hand."""

    ask: Ask
    token: int
    ends: int


@dataclass(slots=True)
class Service:
    """All locks and sessions of a world."""

    world: World
    kind: Kind
    tell: Tell
    token: int = 0
    held: dict[str, Held] = field(default_factory=dict)
    queues: dict[str, list[tuple[Ask, int, Reply]]] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    over: set[int] = field(default_factory=set)
    beats: dict[int, int] = field(default_factory=dict)
    latest: dict[str, int] = field(default_factory=dict)
    regained: set[int] = field(default_factory=set)
    """Attempts that a renewal gave a lock which another had held since."""

    def acquire(self, ask: Ask, reply: Reply) -> None:
        """Grants a free lock; refuses or queues where it is held."""
        held = self.held.get(ask.lock)
        waiting = any(w.attempt == ask.attempt for w, _, _ in self.queues.get(ask.lock, ()))
        if ask.number in self.answers:
            reply(self.answers[ask.number])
        elif ask.session in self.ended or ask.attempt in self.over:
            reply(self._note(ask, Answer(status=Status.FAIL)))
        elif held is not None and held.ask.attempt == ask.attempt:
            reply(Answer(status=Status.OK, token=held.token, ttl=ask.ttl))
        elif held is None or self._strikes("double", 3):
            reply(self._grant(ask, self.world.now))
        elif waiting:
            reply(Answer(status=Status.FAIL, waiting=True))
        elif not ask.queue:
            reply(Answer(status=Status.FAIL))
        else:
            self.queues.setdefault(ask.lock, []).append((ask, self.world.now, reply))
            reply(Answer(status=Status.FAIL, waiting=True))

    def renew(self, ask: Ask, reply: Reply) -> None:
        """Lets the holder's lease begin anew."""
        if ask.number in self.answers:
            reply(self.answers[ask.number])
            return
        held = self.held.get(ask.lock)
        mine = held is not None and held.ask.attempt == ask.attempt
        upsert = self.kind.renew == "upsert" and held is None and ask.session not in self.ended
        if mine or upsert:
            token = held.token if held else NO_TOKEN
            if self.latest.get(ask.lock) != ask.attempt:
                self.regained.add(ask.attempt)
            self._hold(ask, token, self.world.now)
            reply(self._note(ask, Answer(status=Status.OK, token=token, ttl=ask.ttl)))
        elif self._strikes("revive", 1):
            reply(self._note(ask, Answer(status=Status.OK, ttl=ask.ttl)))
        else:
            reply(self._note(ask, Answer(status=Status.NOT_OWNER)))

    def release(self, ask: Ask, reply: Reply) -> None:
        """Frees the lock if the attempt holds it."""
        if ask.number in self.answers:
            reply(self.answers[ask.number])
            return
        held = self.held.get(ask.lock)
        mine = held is not None and held.ask.attempt == ask.attempt
        if mine or (held is not None and self._strikes("anyone", 1)):
            self._free(ask.lock)
        elif self.kind.release == "once":
            reply(self._note(ask, Answer(status=Status.NOT_OWNER)))
            return
        reply(self._note(ask, Answer(status=Status.OK)))

    def force(self, ask: Ask, reply: Reply) -> None:
        """An operator frees a lock, whoever holds it."""
        held = self.held.get(ask.lock)
        if ask.number not in self.answers:
            self._note(ask, Answer(status=Status.OK if held else Status.FAIL))
            if held is not None:
                self._lost(held)
        reply(self.answers[ask.number])

    def beat(self, process: int, session: int, ttl: int, reply: Reply) -> None:
        """A session lives on, unless it is over."""
        if session in self.ended:
            reply(Answer(status=Status.FAIL))
            return
        ends = self.world.now + ttl - self.world.rng.randrange(self.kind.slip + 1)
        self.beats[session] = ends
        self.world.at(ends + self.world.lag(), lambda: self._expire_session(process, session))
        reply(Answer(status=Status.OK, ttl=ttl))

    def end_session(self, process: int, session: int) -> None:
        """A session or connection is over: its holds are freed, its waiters forgotten."""
        if session in self.ended:
            return
        self.ended.add(session)
        for lock, queue in self.queues.items():
            self.queues[lock] = [entry for entry in queue if entry[0].session != session]
        for lock, held in list(self.held.items()):
            if held.ask.session == session:
                self._free(lock)
        self.tell(process, Op.CLOSED, 0)

    def _expire_session(self, process: int, session: int) -> None:
        if self.beats[session] <= self.world.now:
            self.end_session(process, session)

    def _grant(self, ask: Ask, begun: int) -> Answer:
        self.token += 1
        if self._strikes("reset", 8):
            self.token = 1
        token = self.token if self.kind.tokens else NO_TOKEN
        self._hold(ask, token, begun)
        return self._note(ask, Answer(status=Status.OK, token=token, ttl=ask.ttl))

    def _hold(self, ask: Ask, token: int, begun: int) -> None:
        ends = NEVER
        if self.kind.bound == "lease":
            ends = begun + ask.ttl - self.world.rng.randrange(self.kind.slip + 1)
            if self._strikes("early", 2):
                ends = begun + ask.ttl // 2
        self.latest[ask.lock] = ask.attempt
        held = Held(ask=ask, token=token, ends=ends)
        self.held[ask.lock] = held
        if ends < NEVER:
            self.world.at(ends + self.world.lag(), lambda: self._expire(held))

    def _expire(self, held: Held) -> None:
        if self.held.get(held.ask.lock) is held:
            self._lost(held)

    def _lost(self, held: Held) -> None:
        self._free(held.ask.lock)
        if self.kind.fault != "silent":
            self.tell(held.ask.process, Op.LOST, held.ask.attempt)

    def _free(self, lock: str) -> None:
        gone = self.held.pop(lock)
        if self.kind.renew == "owned" or self.kind.release == "once":
            self.over.add(gone.ask.attempt)
        queue = self.queues.get(lock)
        if queue:
            ask, asked, reply = queue.pop(0)
            begun = asked if self.kind.lease_from == "asking" else self.world.now
            reply(self._grant(ask, begun))

    def _note(self, ask: Ask, answer: Answer) -> Answer:
        self.answers[ask.number] = answer
        return answer

    def _strikes(self, fault: str, one_in: int) -> bool:
        return self.kind.fault == fault and self.world.rng.randrange(one_in) == 0
