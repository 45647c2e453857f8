"""Clients of the small service: what they do, what they record, how they die."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from holdfast.harness.core.case import Case, History, Window
from holdfast.harness.core.fault_traits import BEFORE
from holdfast.harness.core.operations import NO_TOKEN, Op, Status, attempt_id
from tests.checkers.brute.service import Answer, Ask, Kind, Reply, Service
from tests.checkers.brute.world import Box, Network, Step, World
from tests.checkers.shorthand import case, table

STOP = 240
OPERATOR = 900
LOCKS = ("db",)
Call = Callable[[Ask, Reply], None]


@dataclass(slots=True)
class Crowd:
    """Some clients, an operator, and all they have recorded."""

    world: World
    kind: Kind
    ttl: int
    nodes: dict[int, str] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)
    sessions: dict[int, int] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    requests: int = 0
    service: Service = field(init=False)

    def __post_init__(self) -> None:
        self.service = Service(world=self.world, kind=self.kind, tell=self.told)

    def join(self, process: int, node: str) -> None:
        """A client begins."""
        self.nodes[process] = node
        self.sessions[process] = process << 8
        self.world.start(process, self._works(process))
        if self.kind.bound == "session":
            self.world.start(process, self._beats(process))

    def kill(self, process: int) -> None:
        """A client dies, and another takes its place after a while."""
        if process in self.world.dead:
            return
        self.world.dead.add(process)
        now, node = self.world.now, self.nodes[process]
        self.windows.append(
            Window(
                id=f"k{now}",
                do="kill",
                target="holder",
                nodes=(node,),
                from_ns=now,
                to_ns=now + 5,
                effective=True,
                evidence={},
                traits=BEFORE["kill"],
            )
        )
        if self.kind.bound == "connection":
            session = self.sessions[process]
            self.world.at(now + 5, lambda: self.service.end_session(process, session))
        self.world.at(now + 6, lambda: self.join(process + 100, node))

    def cut(self, process: int) -> None:
        """A connection breaks: the service knows now, the client later."""
        self.service.end_session(process, self.sessions[process])

    def told(self, process: int, op: Op, attempt: int) -> None:
        """The client learns unasked, late but surely, if it is still there."""

        def learn() -> None:
            if process not in self.world.dead:
                row = self._row(op, process, attempt, LOCKS[0] if attempt else "")
                row["t_ret"], row["status"] = row["t_inv"], Status.OK
                if op is Op.CLOSED:
                    self.sessions[process] += 1

        self.world.at(self.world.now + self.world.lag(), learn)

    def case(self) -> Case:
        """What a judge is given."""
        once, lease = self.kind.release == "once", self.kind.bound == "lease"
        owned = self.kind.renew == "owned"
        promises = {
            "bound": "none" if self.kind.renewed else self.kind.bound,
            "lapse_ns": 0 if self.kind.renewed else -1,
            "renew_proves": owned,
            "release_once": once,
            "release_proves": once and owned,
            "slip_ns": self.kind.slip,
            "order": self.kind.order,
            "tokens": "ordered" if self.kind.tokens else "none",
            "tokens_unique": self.kind.tokens,
            "notice_ns": self.world.network.delay + 1,
            "recovery_ns": self.world.network.delay,
        }
        rows = [row for row in self.world.rows if row["f"] != 0]
        told = History(rows=table(rows), strings=("", *LOCKS), writers=("w0",))
        return case(
            told,
            promises=promises,
            nodes=self.nodes,
            windows=tuple(self.windows),
            lease_ns=self.ttl if lease or self.kind.bound == "session" else 0,
        )

    def operator(self) -> Step:
        """Frees a lock by force, once."""
        yield self.world.rng.randrange(STOP)
        row = self._row(Op.FORCE_UNLOCK, OPERATOR, 0, LOCKS[0])
        ask, box = self._ask(OPERATOR, 0), Box(by=self.world.now + 20)
        yield from self._sends(self.service.force, ask, box)
        self._done(row, box.answer)

    def _works(self, process: int) -> Step:
        rng = self.world.rng
        while self.world.now < STOP:
            attempt = self._attempt(process)
            row = self._row(rng.choice((Op.ACQUIRE, Op.TRY)), process, attempt, LOCKS[0])
            yield from self._acquires(process, attempt, row)
            if row["status"] == Status.OK:
                yield from self._holds(process, attempt, row["token"])
            if row["status"] != Status.FAIL:
                yield from self._releases(process, attempt, row["token"])
            yield rng.randrange(1, 12)

    def _acquires(self, process: int, attempt: int, row: dict[str, int]) -> Step:
        rng, queue = self.world.rng, row["f"] == Op.ACQUIRE
        polls = queue and self.kind.order == "racing"
        by = self.world.now + (rng.randrange(8, 40) if queue else 8)
        row["arg"] = row["res"] = self.ttl
        while True:
            ask = self._ask(process, attempt, queue=queue and not polls)
            box = Box(by=min(by, self.world.now + 8) if polls else by)
            yield from self._sends(self.service.acquire, ask, box)
            refused = box.answer is not None and box.answer.status is Status.FAIL
            if not polls or not (refused or box.answer is None) or self.world.now >= by:
                break
            if refused:
                self._moment(Op.WAITING, process, attempt)
            yield rng.randrange(1, 5)
        self._done(row, box.answer)
        if polls and row["status"] == Status.FAIL:
            row["status"] = Status.INFO

    def _holds(self, process: int, attempt: int, token: int) -> Step:
        rng = self.world.rng
        for n in range(rng.randrange(4)):
            yield 0 if n == 0 else rng.randrange(self.ttl)
            row = self._row(Op.RENEW, process, attempt, LOCKS[0], token)
            ttl = self.ttl if rng.randrange(4) else max(2, self.ttl // 2)
            row["arg"] = row["res"] = ttl
            ask, box = self._ask(process, attempt, ttl=ttl), Box(by=self.world.now + 8)
            yield from self._sends(self.service.renew, ask, box)
            self._done(row, box.answer)
        yield rng.randrange(2 * self.ttl if rng.randrange(4) == 0 else self.ttl)

    def _releases(self, process: int, attempt: int, token: int) -> Step:
        rng = self.world.rng
        if rng.randrange(12) == 0 and self.kind.bound != "none":
            return
        for _ in range(3 if self.kind.bound != "none" else 30):
            row = self._row(Op.RELEASE, process, attempt, LOCKS[0], token)
            ask, box = self._ask(process, attempt), Box(by=self.world.now + 8)
            yield from self._sends(self.service.release, ask, box)
            self._done(row, box.answer)
            if box.answer is not None and (rng.randrange(8) or self.kind.bound == "none"):
                return
            yield rng.randrange(4)

    def _beats(self, process: int) -> Step:
        while self.world.now < STOP:
            yield from self._beat(process, self.sessions[process])
            yield max(1, self.ttl // 3)

    def _beat(self, process: int, session: int) -> Step:
        row = self._row(Op.HEARTBEAT, process, 0, "")
        row["arg"], row["res"] = session, self.ttl
        box = Box(by=self.world.now + 8)
        yield self.world.lag()
        self.world.send(
            lambda: self.service.beat(process, session, self.ttl, lambda a: self._back(box, a))
        )
        yield box
        self._done(row, box.answer)

    def _sends(self, call: Call, ask: Ask, box: Box) -> Step:
        yield self.world.lag()
        self.world.send(lambda: call(ask, lambda answer: self._back(box, answer)))
        yield box

    def _back(self, box: Box, answer: Answer) -> None:
        if not answer.waiting:
            self.world.send(lambda: self.world.put(box, answer))

    def _ask(self, process: int, attempt: int, *, ttl: int = 0, queue: bool = False) -> Ask:
        self.requests += 1
        return Ask(
            number=self.requests,
            process=process,
            session=self.sessions.get(process, 0),
            lock=LOCKS[0],
            attempt=attempt,
            ttl=ttl or self.ttl,
            queue=queue,
        )

    def _attempt(self, process: int) -> int:
        self.attempts[process] = self.attempts.get(process, 0) + 1
        return attempt_id(process, self.attempts[process])

    def _row(
        self, op: Op, process: int, attempt: int, lock: str, token: int = NO_TOKEN
    ) -> dict[str, int]:
        row = {
            "f": op,
            "process": process,
            "attempt": attempt,
            "key": LOCKS.index(lock) + 1 if lock else 0,
            "token": token,
            "t_inv": self.world.now,
            "t_ret": 0,
            "status": Status.INVOKED,
        }
        self.world.rows.append(row)
        return row

    def _moment(self, op: Op, process: int, attempt: int) -> None:
        row = self._row(op, process, attempt, LOCKS[0])
        row["t_ret"], row["status"] = self.world.now, Status.OK

    def _done(self, row: dict[str, int], answer: Answer | None) -> None:
        row["t_ret"] = self.world.now
        row["status"] = Status.INFO if answer is None else answer.status
        if answer is not None and answer.token != NO_TOKEN:
            row["token"] = answer.token


def run(seed: int, kind: Kind) -> Case:
    """One run of three clients, with a network as bad as the seed says."""
    return crowd_of(seed, kind).case()


def crowd_of(seed: int, kind: Kind) -> Crowd:
    """The same, with its service, after the end of the run."""
    rng = random.Random(f"{seed} {kind}")
    network = Network(
        late=rng.choice((3, 10, 40)),
        delay=rng.choice((4, 15, 30)),
        lost=rng.choice((0, 10, 30)),
        twice=rng.choice((0, 10)),
    )
    crowd = Crowd(world=World(rng=rng, network=network), kind=kind, ttl=rng.choice((6, 12, 20)))
    for process in range(3):
        crowd.join(process, f"c{process}")
    if rng.randrange(3) == 0:
        crowd.world.start(OPERATOR, crowd.operator())
    for _ in range(rng.randrange(3)):
        victim, tick = rng.randrange(3), rng.randrange(20, STOP)
        if kind.bound != "none":
            crowd.world.at(tick, partial(crowd.kill, victim))
        if kind.bound == "connection":
            crowd.world.at(rng.randrange(STOP), partial(crowd.cut, victim))
    crowd.world.run(STOP + 100)
    return crowd
