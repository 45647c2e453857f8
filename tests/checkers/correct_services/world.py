"""A world of events: a server that keeps its word, a network and clients that misbehave.

Written apart from every other generator of histories, and from the checkers: nothing here knows
what a hold is to them. Times are true times; what a client notes is off by its clock.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status, Terms, attempt_id
from tests.checkers.correct_services.kinds import MS, Service

NEVER = 1 << 60
ASKS = (Op.ACQUIRE, Op.TRY, Op.PROBE)
RESEND_NS, ANSWER_NS = 400 * MS, 1200 * MS
"""A request without an answer is sent again, under its own identity, and given up in the end."""
LEASES = (SECOND, 2 * SECOND, 3 * SECOND)
SESSION_NS = 2 * SECOND
FOUND_NS = SECOND
"""A wait-for cycle is looked for so long after the wait began that may have closed it."""

Row = dict[str, int]
Program = Generator[Any, Any, None]
Reply = tuple[Status, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Faults:
    """What befalls the service of a whole batch: when it is down, and the clients' own faults come
    from each history's seed."""

    down: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True, eq=False)
class Hold:
    """What the server keeps of a grant, or of one who waits for it."""

    attempt: int
    process: int
    lock: int
    mode: int
    permits: int
    limit: int
    ttl_ns: int
    session: int
    asked: Request
    token: int = NO_TOKEN
    over_ns: int = NEVER
    renewals: int = 0


@dataclass(slots=True, eq=False)
class Request:
    """One call: its row, and the values that travel."""

    row: Row
    client: Client
    values: dict[str, Any] = field(default_factory=dict)
    reply: Reply | None = None
    seen: bool = False
    done: bool = False
    then: Callable[[], None] = lambda: None


class World:
    """One history: its events in order of time, its server, its clients and their rows."""

    def __init__(self, service: Service, seed: str, faults: Faults, first: int) -> None:
        self.service, self.faults = service, faults
        self.rng = random.Random(seed)
        self.now = 0
        self.grain = self.rng.choice((1, MS, 100 * MS))
        """times of coarse grain fall together often"""
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._n = 0
        self.server = Server(self)
        self.first = first
        self.clients: list[Client] = []
        self.served: list[Row] = []
        self.windows: list[tuple[str, str, int, int]] = []
        self.starved: list[tuple[str, int, int]] = []

    def at(self, t_ns: int, what: Callable[[], None]) -> None:
        self._n += 1
        heapq.heappush(self._events, (max(t_ns, self.now), self._n, what))

    def run(self, until_ns: int) -> None:
        while self._events and self._events[0][0] <= until_ns:
            self.now, _, what = heapq.heappop(self._events)
            what()

    def lag(self, most_ns: int = 60 * MS) -> int:
        """How long a message is under way; now and then very long."""
        rng = self.rng
        if rng.random() < 0.04:
            most_ns *= 30
        return max(self.grain, int(rng.random() * most_ns) // self.grain * self.grain)

    def up(self) -> bool:
        return not any(begin <= self.now < over for begin, over in self.faults.down)


class Server:
    """The lock service: decides each request once, at one instant, and remembers what it said."""

    def __init__(self, world: World) -> None:
        self.world = world
        rng, service = world.rng, world.service
        self.rate = 1 + rng.uniform(-1, 1) * service.drift_ppm / 1e6 * 0.999
        self.holds: list[Hold] = []
        self.queue: list[Hold] = []
        self.newest = 0
        self.shut_until: dict[int, int] = {}
        self.sessions: dict[int, int] = {}
        self.versions: dict[int, int] = {}
        self.highest: dict[int, int] = {}
        self.applied: dict[int, Reply] = {}
        for _, over in world.faults.down:
            world.at(over, self.restarted)

    def restarted(self) -> None:
        """What it kept is there again; how long each lease has run is not known: it runs anew."""
        for hold in self.holds:
            if hold.over_ns < NEVER:
                self.lease(hold)
        for session in self.sessions:
            self.beat(session)
        self.serve()

    def lasts(self, ttl_ns: int) -> int:
        slip = self.world.service.slip_ns
        return int(ttl_ns * self.rate) + int(self.world.rng.uniform(-1, 1) * slip)

    def lease(self, hold: Hold) -> None:
        hold.over_ns = self.world.now + self.lasts(hold.ttl_ns)
        if self.world.service.late_ns and self.world.rng.random() < 0.6:
            hold.over_ns += self.world.rng.randrange(self.world.service.late_ns)
        self.world.at(hold.over_ns, lambda: self.expired(hold))

    def expired(self, hold: Hold) -> None:
        if hold in self.holds and self.world.now >= hold.over_ns and self.world.up():
            self.end(hold, "expired")

    def beat(self, session: int) -> None:
        over = self.sessions[session] = self.world.now + self.lasts(SESSION_NS)
        self.world.at(over, lambda: self.silent(session))

    def silent(self, session: int) -> None:
        if self.world.now >= self.sessions.get(session, NEVER) and self.world.up():
            self.hang_up(session, "session")

    def hang_up(self, session: int, why: str) -> None:
        """A session or connection is over, and all that it holds and waits for."""
        if self.sessions.pop(session, None) is None:
            return
        self.queue = [one for one in self.queue if one.session != session]
        for hold in [one for one in self.holds if one.session == session]:
            self.holds.remove(hold)
            self.shut_until[hold.lock] = self.world.now + self.world.service.delay_ns
            self.world.at(self.shut_until[hold.lock], self.serve)
        client = next(c for c in self.world.clients if c.process == session >> 16)
        client.learns(lambda: client.closed(session, why))
        self.serve()

    def end(self, hold: Hold, why: str) -> None:
        """A hold is over although its owner did not ask for that; the owner is notified."""
        self.holds.remove(hold)
        if why == "expired":
            self.shut_until[hold.lock] = self.world.now + self.world.service.delay_ns
            self.world.at(self.shut_until[hold.lock], self.serve)
        client = hold.asked.client
        if not self.world.service.renewed:
            client.learns(lambda: client.lost(hold, why))
        self.serve()

    def met(self, a: int, b: int) -> bool:
        """Whether two locks exclude each other: one is the other, or covers it."""
        return a == b or (self.world.service.subtrees and 1 in (a, b))

    def own(self, one: Hold) -> Hold | None:
        """What its client holds already, if it may be let in to that: it alone holds the lock, and
        asks to re-enter, or to share what it has for itself."""
        service = self.world.service
        others = [hold for hold in self.holds if hold.lock == one.lock]
        again = service.reenters and one.asked.row["op"] & 1
        again = again or (service.downgrades and one.mode == Mode.SHARED)
        mine = bool(others) and all(hold.process == one.process for hold in others)
        return others[0] if again and mine else None

    def fits(self, one: Hold) -> bool:
        if self.world.now < self.shut_until.get(one.lock, 0):
            return False
        others = [hold for hold in self.holds if self.met(hold.lock, one.lock)]
        if one.mode == Mode.PERMITS:
            return one.permits + sum(hold.permits for hold in others) <= one.limit
        shared = one.mode == Mode.SHARED
        return all(shared and hold.mode == Mode.SHARED for hold in others)

    def serve(self) -> None:
        """Grants to those who stand first, as long as there is room."""
        kept = list[Hold]()
        shut = list[int]()
        for one in self.queue if self.world.up() else ():
            if one.over_ns <= self.world.now:
                one.asked.client.answer(one.asked, (Status.FAIL, {}))
            elif self.own(one) or (
                not any(self.met(one.lock, lock) for lock in shut) and self.fits(one)
            ):
                self.grant(one)
            else:
                shut.append(one.lock)
                kept.append(one)
        if self.world.up():
            self.queue = kept

    def grant(self, one: Hold) -> None:
        if held := self.own(one):
            one.token = held.token
        else:
            self.newest += self.world.rng.choice((1, 1, 3))
            one.token = self.newest
        one.over_ns = NEVER
        self.holds.append(one)
        if self.world.service.bound == "lease":
            self.lease(one)
        ttl = one.ttl_ns if self.world.service.bound == "lease" else 0
        one.asked.client.answer(one.asked, (Status.OK, {"token": one.token, "res": ttl}))

    def arrives(self, request: Request) -> None:
        """A request, or a copy of it."""
        if not self.world.up():
            return
        if request.reply is not None:
            request.client.answer(request, request.reply)
        elif not request.seen:
            request.seen = True
            self.decide(request, Op(request.row["f"]))

    def decide(self, request: Request, op: Op) -> None:
        reply: Reply | None
        if op in ASKS:
            reply = self.asked(request, op)
        elif op is Op.HEARTBEAT:
            session = request.row["arg"]
            if session in self.sessions or request.values["new"]:
                self.sessions[session] = NEVER
                self.beat(session)
                reply = Status.OK, {"res": SESSION_NS}
            else:
                reply = Status.FAIL, {}
        elif op is Op.FORCE_UNLOCK:
            reply = self.unlocked(request)
        else:
            reply = self.about(request, op)
        if reply is not None:
            request.client.answer(request, reply)

    def asked(self, request: Request, op: Op) -> Reply | None:
        row, values, world = request.row, request.values, self.world
        by_session = world.service.bound in ("session", "connection")
        if by_session and values["session"] not in self.sessions:
            return Status.FAIL, {}
        one = Hold(
            attempt=row["attempt"], process=row["process"], lock=row["key"], mode=row["mode"],
            permits=values["permits"], limit=values["limit"], ttl_ns=row["arg"],
            session=values["session"], asked=request,
        )  # fmt: skip
        waits = any(self.met(other.lock, one.lock) for other in self.queue)
        if self.own(one) or (self.fits(one) and not waits):
            self.grant(one)
            return None
        if op is Op.TRY or not world.service.queued:
            return Status.FAIL, {}
        if row["aux"] >= 0:
            one.over_ns = world.now + row["aux"]
            world.at(one.over_ns, self.serve)
        self.queue.append(one)
        request.client.learns(lambda: request.client.waits(request))
        if world.service.pair:
            world.at(world.now + FOUND_NS, lambda: self.untie(one))
        return None

    def untie(self, one: Hold) -> None:
        """Refuses one who waits for somebody that waits for it."""
        if one in self.queue and self.world.up():
            waiting = {other.process: other.lock for other in self.queue}
            mine = {hold.lock for hold in self.holds if hold.process == one.process}
            holders = [hold.process for hold in self.holds if hold.lock == one.lock]
            if any(waiting.get(process) in mine for process in holders):
                self.queue.remove(one)
                one.asked.client.answer(one.asked, (Status.FAIL, {}))
                self.serve()

    def unlocked(self, request: Request) -> Reply:
        """An operator ends the hold of a token, or whatever hold there is."""
        token = request.row["token"]
        for hold in list(self.holds):
            if hold.lock == request.row["key"] and token in (NO_TOKEN, hold.token):
                self.end(hold, "revoked")
                return Status.OK, {}
        return Status.FAIL, {}

    def about(self, request: Request, op: Op) -> Reply:
        """A question or wish about a hold that there may be."""
        row, key = request.row, request.row["key"]
        mine = next((h for h in self.holds if h.attempt == row["attempt"]), None)
        if op is Op.HOLDER:
            holder = next((h for h in self.holds if h.lock == key), None)
            if holder is None:
                return Status.OK, {"token": NO_TOKEN}
            return Status.OK, {"token": holder.token, "res": holder.renewals}
        if op is Op.PLACE:
            before = [h.attempt for h in self.queue if h.lock == key]
            there = row["attempt"] in before
            return Status.OK, {"res": before.index(row["attempt"]) if there else -1}
        if op is Op.LENGTH:
            return Status.OK, {"res": sum(h.lock == key for h in self.queue)}
        if op is Op.CHECK:
            return (Status.OK if mine else Status.FAIL), {}
        if op is Op.RENEW and mine is None and self.revived(request):
            return Status.OK, {"res": row["arg"]}
        if mine is None:
            little = self.world.service.says_little and op is Op.RELEASE
            return (Status.OK if little else Status.NOT_OWNER), {}
        if op is Op.RELEASE:
            self.holds.remove(mine)
            left = sum(h.process == mine.process and h.lock == key for h in self.holds)
            self.serve()
            return Status.OK, {"res": left + 1} if self.world.service.reenters else {}
        mine.renewals += 1
        if self.world.service.bound == "lease":
            mine.ttl_ns = row["arg"]
            self.lease(mine)
            return Status.OK, {"res": mine.ttl_ns}
        return Status.OK, {"res": 0}

    def revived(self, request: Request) -> bool:
        """An upsert takes a free lock anew if nobody was granted it since."""
        hold: Hold | None = request.values.get("hold")
        if not self.world.service.upsert or hold is None or hold.token != self.newest:
            return False
        if any(h.lock == hold.lock for h in (*self.holds, *self.queue)):
            return False
        hold.ttl_ns = request.row["arg"]
        self.holds.append(hold)
        self.lease(hold)
        return True

    def resource(self, request: Request) -> None:
        """The protected resource decides, at once, and writes down what."""
        row, world = request.row, self.world
        name = row["process"] << 32 | row["row"]
        key, token, write = row["key"], row["token"], row["f"] == Op.WRITE
        if name in self.applied:
            request.client.answer(request, self.applied[name])
            return
        highest, version = self.highest.get(key, NO_TOKEN), self.versions.get(key, 0)
        how = world.service.resource
        taken = how == "unfenced" or token > highest or (how != "strict" and token == highest)
        if how == "guarded":
            taken &= any(h.token == token for h in self.holds)
        if taken:
            self.highest[key] = max(highest, token)
            version = self.versions[key] = version + write
        world.served.append(
            {
                "f": Op.SERVED_WRITE if write else Op.SERVED_READ,
                "t_inv": world.now,
                "t_ret": world.now + world.rng.choice((0, 1, MS)),
                "attempt": row["attempt"],
                "token": token,
                "op": name,
                "arg": row["arg"] if write else highest,
                "aux": highest if write else 0,
                "res": version,
                "key": key,
                "process": row["process"],
                "status": Status.OK if taken else Status.FAIL,
            }
        )
        reply = (Status.OK if taken else Status.FAIL), {"res": version}
        if write:
            self.applied[name] = reply
        request.client.answer(request, reply)


class Client:
    """A process: a program, a clock that may be off, spans in which it cannot run, and its end."""

    def __init__(self, world: World, number: int, node: str) -> None:
        self.world, self.node = world, node
        self.process = world.first + number
        self.rows: list[Row] = []
        error = world.service.error_ns
        self.off_ns = world.rng.randint(-error, error) if error else 0
        self.still: list[tuple[int, int]] = []
        self.cut: list[tuple[int, int]] = []
        self.dies_ns = NEVER
        self.over = set[int]()
        self.given_back = set[int]()
        self.attempts = 0
        self.session = 0
        self.finished = self.unsure = False
        self.holds: dict[int, Hold] = {}
        world.clients.append(self)

    def runs(self, what: Callable[[], None]) -> None:
        """Does something as soon as the process can run."""
        world = self.world
        until = max((over for begin, over in self.still if begin <= world.now < over), default=0)
        if until:
            world.at(until, lambda: self.runs(what))
        elif world.now < self.dies_ns:
            what()

    def reached(self) -> bool:
        return not any(begin <= self.world.now < over for begin, over in self.cut)

    def learns(self, what: Callable[[], None]) -> None:
        """A message to it, repeated until it is there."""

        def arrives() -> None:
            if self.reached():
                self.runs(what)
            else:
                self.world.at(self.world.now + RESEND_NS, arrives)

        self.world.at(self.world.now + self.world.lag(), arrives)

    def row(self, f: Op, /, **columns: int) -> Row:
        row = {"f": f, "t_inv": self.world.now, "t_ret": 0, "process": self.process,
               "status": Status.INVOKED, "token": NO_TOKEN, "row": len(self.rows),
               "attempt": 0, "key": 0, "arg": 0, "res": 0, "aux": 0, "mode": 0,
               "op": 0}  # fmt: skip
        row.update(columns)
        return row

    def note(self, f: Op, /, **columns: int) -> Row:
        row = self.row(f, **columns)
        self.rows.append(row)
        return row

    def moment(self, f: Op, /, **columns: int) -> None:
        self.note(f, t_ret=self.world.now, status=Status.OK, **columns)

    def waits(self, request: Request) -> None:
        if not request.done:
            row = request.row
            self.moment(Op.WAITING, attempt=row["attempt"], key=row["key"], res=-1)

    def lost(self, hold: Hold, why: str) -> None:
        if hold.attempt not in self.over:
            self.over.add(hold.attempt)
            reason = {"expired": 1, "revoked": 2}[why]
            self.moment(Op.LOST, attempt=hold.attempt, key=hold.lock, token=hold.token, res=reason)

    def closed(self, session: int, why: str) -> None:
        if session == self.session:
            self.session = 0
            self.over.update(range(attempt_id(self.process, 0), attempt_id(self.process, 99)))
            self.moment(Op.CLOSED, res={"session": 3, "closed": 4}[why])

    def call(self, f: Op, bound_ns: int = ANSWER_NS, /, **columns: Any) -> Request:
        """Sends a request; the program goes on when it is answered or given up."""
        travel = [name for name in ("session", "permits", "limit", "new") if name in columns]
        values: dict[str, Any] = {name: columns.pop(name) for name in travel}
        hold: Any = columns.pop("hold", None)
        request = Request(self.note(f, **columns), self, {**values, "hold": hold})
        if f is Op.RELEASE:
            self.given_back.add(request.row["attempt"])
        self.send(request, self.world.now + bound_ns)
        return request

    def unseen(self, f: Op, bound_ns: int, /, **columns: int) -> Request:
        """A request of a library of its own accord, of which no row tells."""
        request = Request(self.row(f, **columns), self)
        self.send(request, self.world.now + bound_ns)
        return request

    def send(self, request: Request, until_ns: int) -> None:
        world = self.world
        if request.done or world.now >= until_ns:
            return
        row = request.row
        to_resource = row["f"] in (Op.READ, Op.WRITE)
        for _ in range(2 if world.rng.random() < 0.1 else 1):
            if world.rng.random() > 0.12 and (to_resource or self.reached()):
                if to_resource:
                    slow = 3 * SECOND if world.rng.random() < 0.15 else 60 * MS
                    lag_ns = world.lag(slow)
                    world.at(world.now + lag_ns, lambda: self.world.server.resource(request))
                else:
                    world.at(world.now + world.lag(), lambda: self.world.server.arrives(request))
        if not to_resource or row["aux"] > 0:
            again = lambda: self.runs(lambda: self.send(request, until_ns))  # noqa: E731
            world.at(world.now + RESEND_NS, again)

    def answer(self, request: Request, reply: Reply) -> None:
        """An answer on its way back; it may be lost."""
        if request.reply is None and request.row["f"] not in (Op.READ, Op.WRITE):
            request.reply = reply
        world = self.world

        def arrives() -> None:
            if self.reached() and not request.done:
                self.runs(lambda: self.returned(request, reply))

        if world.rng.random() > 0.1:
            world.at(world.now + world.lag(), arrives)

    def returned(self, request: Request, reply: Reply | None) -> None:
        if request.done:
            return
        request.done = True
        row = request.row
        row["t_ret"], row["status"] = self.world.now, Status.INFO
        if reply is not None:
            row["status"] = reply[0]
            row.update(reply[1])
            if row["status"] == Status.NOT_OWNER and not self.world.service.renewed:
                self.over.add(row["attempt"])
        request.then()

    def run(self, program: Program) -> None:
        """Goes through a program: it yields a span to sleep, or a request and how long to wait."""

        def step(value: Any = None) -> None:
            try:
                wanted = program.send(value)
            except StopIteration:
                return
            if isinstance(wanted, int):
                self.world.at(self.world.now + wanted, lambda: self.runs(step))
                return
            request, bound_ns = wanted
            self._await(request, self.world.now + bound_ns, step)

        step()

    def _await(self, request: Request, until_ns: int, then: Callable[[Any], None]) -> None:
        def given_up() -> None:
            self.returned(request, None)

        request.then = lambda: then(Status(request.row["status"]))
        self.world.at(until_ns, lambda: self.runs(given_up))


def terms_of(service: Service, rng: random.Random, limit: int) -> Terms:
    """How a lock is asked for."""
    if service.sharing == "semaphore":
        return Terms(mode=Mode.PERMITS, permits=rng.randint(1, limit), limit=limit)
    shared = service.sharing == "read-write" and rng.random() < 0.6
    return Terms(mode=Mode.SHARED if shared else Mode.EXCLUSIVE, reenter=service.reenters)
