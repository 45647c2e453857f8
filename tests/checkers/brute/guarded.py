"""A small lease service with a queue, its clients and a protected resource, in simulated time.

It does right by construction, over a network that is late and loses messages, for clients that
pause, die, give up and leave zombies behind; what really happened is kept beside what clients saw.
A mutant does one thing wrong.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from holdfast.harness.core.case import Case, History
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.operations import NO_TOKEN, Op, Status, attempt_id
from tests.checkers.shorthand import case, table

LEASE, STOP, PROBE_WAIT, GIVE_UP, LATE = 2_000, 12_000, 10_000, 1_500, 1_500
"""ms: lease, end of the workload, longest wait of the probe, of a call, of a message"""
RENEW_WORDS = {"ok": Status.OK, "not-holder": Status.NOT_OWNER}
ACQUIRE_WORDS = {"granted": Status.OK, "held": Status.FAIL, "timed-out": Status.FAIL}

Reply = tuple[str, int]
"""what was said, and a token or version"""
Client = Generator[tuple[str, Any], Any, None]
MUTANTS = ("no-expiry", "lost-wakeup", "unfenced", "patient-client")


@dataclass(slots=True)
class Waiter:
    """An acquire in the queue."""

    attempt: int
    answer: Callable[[Reply], None]


@dataclass(slots=True)
class World:
    """Everything of one run. `holds` is the truth: attempt -> [from, to] in ms."""

    rng: random.Random
    mutant: str = ""
    now: int = 0
    rows: list[dict[str, int]] = field(default_factory=list)
    holds: dict[int, tuple[int, int]] = field(default_factory=dict)
    _due: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _counts: dict[int, int] = field(default_factory=dict)
    _holder: int = 0
    _until: int = 0
    _token: int = 0
    _queue: list[Waiter] = field(default_factory=list)
    _highest: int = NO_TOKEN
    _version: int = 0

    def run(self) -> Case:
        """Run it to its end; the case as a judge is given it."""
        for process in range(1, 5):
            self._step(self._worker(process), None)
        self._at(STOP + self.rng.randint(3_000, 5_000), lambda: self._step(self._prober(), None))
        while self._due:
            self.now, _, work = heapq.heappop(self._due)
            work()
        end_ns = self.now * MILLISECOND
        for row in self.rows:
            row["t_inv"], row["t_ret"] = row["t_inv"] * MILLISECOND, row["t_ret"] * MILLISECOND
        return case(
            History(rows=table(self.rows), strings=("", "db"), writers=("w",) * 101),
            promises={"recovery_ns": 1_000 * MILLISECOND},
            options={"resource": "unfenced" if self.mutant == "unfenced" else "fenced"},
            stop_ns=STOP * MILLISECOND,
            end_ns=end_ns,
            lease_ns=LEASE * MILLISECOND,
        )

    # Time and messages

    def _at(self, t: int, work: Callable[[], None]) -> None:
        heapq.heappush(self._due, (t, self._count(-1), work))

    def _count(self, writer: int) -> int:
        self._counts[writer] = self._counts.get(writer, 0) + 1
        return self._counts[writer]

    def _send(self, work: Callable[[], None]) -> None:
        chance = self.rng.random()
        if chance < 0.01:
            return
        late = self.rng.randint(100, LATE) if chance < 0.04 else self.rng.randint(1, 20)
        self._at(self.now + late, work)

    def _step(self, client: Client, value: Any) -> None:
        try:
            what, detail = client.send(value)
        except StopIteration:
            return
        if what == "sleep":
            self._at(self.now + detail, lambda: self._step(client, None))
            return
        ask, within, told = detail
        open_ = [True]

        def arrive(reply: Reply | None) -> None:
            if open_[0] and reply is not None and reply[0] == "queued":
                told()
            elif open_[0]:
                open_[0] = False
                self._step(client, reply)

        self._send(lambda: ask(lambda reply: self._send(lambda: arrive(reply))))
        self._at(self.now + within, lambda: arrive(None))

    # The service

    def _acquire(self, attempt: int, wait: int, answer: Callable[[Reply], None]) -> None:
        if not self._holder and not self._queue:
            self._grant(Waiter(attempt, answer))
        elif not wait:
            answer(("held", 0))
        else:
            waiter = Waiter(attempt, answer)
            self._queue.append(waiter)
            self._still(waiter)
            self._at(self.now + wait, lambda: self._time_out(waiter))

    def _still(self, waiter: Waiter) -> None:
        if waiter in self._queue:
            waiter.answer(("queued", 0))
            self._at(self.now + 300, lambda: self._still(waiter))

    def _time_out(self, waiter: Waiter) -> None:
        if waiter in self._queue:
            self._queue.remove(waiter)
            waiter.answer(("timed-out", 0))

    def _grant(self, waiter: Waiter) -> None:
        self._token += 1
        self._holder = waiter.attempt
        self.holds[self._holder] = (self.now, 1 << 40)
        self._lease()
        waiter.answer(("granted", self._token))

    def _lease(self) -> None:
        self._until = self.now + LEASE
        self._at(self._until, self._expire)

    def _expire(self) -> None:
        if self._holder and self.now >= self._until and self.mutant != "no-expiry":
            self._free()

    def _free(self) -> None:
        self.holds[self._holder] = (self.holds[self._holder][0], self.now)
        self._holder = 0
        forgets = self.mutant == "lost-wakeup" and self.rng.random() < 0.3
        if self._queue and not forgets:
            self._grant(self._queue.pop(0))

    def _renew(self, attempt: int, answer: Callable[[Reply], None]) -> None:
        held = self._holder == attempt
        if held:
            self._lease()
        answer(("ok" if held else "not-holder", 0))

    def _release(self, attempt: int, answer: Callable[[Reply], None]) -> None:
        held = self._holder == attempt
        if held:
            self._free()
        answer(("ok" if held else "not-holder", 0))

    # The protected resource

    def _serve(self, sent: dict[str, int], answer: Callable[[Reply], None]) -> None:
        write = sent["f"] == Op.WRITE
        fits = sent["token"] >= self._highest or self.mutant == "unfenced"
        row = self._row(Op.SERVED_WRITE if write else Op.SERVED_READ, sent["process"], writer=100)
        row["op"] = sent["process"] << 32 | sent["row"]
        row["attempt"], row["token"] = sent["attempt"], sent["token"]
        row["arg"] = sent["arg"] if write else self._highest
        row["aux"] = self._highest if write else 0
        if fits:
            self._version += write
            self._highest = max(self._highest, sent["token"])
        row["res"], row["t_ret"] = self._version, self.now
        row["status"] = Status.OK if fits else Status.FAIL
        answer(("accepted" if fits else "refused", self._version))

    # The clients

    def _row(self, op: Op, process: int, *, writer: int = -1, **more: int) -> dict[str, int]:
        writer = process if writer < 0 else writer
        row = {"f": op, "process": process, "key": 1, "t_inv": self.now, "t_ret": 0}
        row |= {"token": NO_TOKEN, "status": Status.INVOKED, "writer": writer}
        row |= {"row": self._count(writer), **more}
        self.rows.append(row)
        return row

    def _done(self, row: dict[str, int], reply: Reply | None, words: dict[str, Status]) -> Status:
        status = Status.INFO if reply is None else words[reply[0]]
        row["t_ret"], row["status"] = self.now, status
        return status

    def _ask(self, op: Op, process: int, attempt: int, wait: int) -> Client:
        """One acquire; returns its token or NO_TOKEN through `self`'s rows."""
        lease = LEASE * MILLISECOND
        more = {"attempt": attempt, "arg": lease, "aux": wait * MILLISECOND}
        row = self._row(op, process, **more)

        def told() -> None:
            self._row(Op.WAITING, process, attempt=attempt)["t_ret"] = self.now
            self.rows[-1]["status"] = Status.OK

        patience = 20_000 if self.mutant == "patient-client" else GIVE_UP
        reply = yield (
            "call",
            (lambda answer: self._acquire(attempt, wait, answer), wait + patience, told),
        )
        if self._done(row, reply, ACQUIRE_WORDS) is Status.OK:
            row["token"], row["res"] = reply[1], lease

    def _call(self, op: Op, process: int, attempt: int, token: int, arg: int = -1) -> Client:
        """A renewal, a release, a read or a write."""
        lock_call = op in (Op.RENEW, Op.RELEASE)
        arg = LEASE * MILLISECOND if lock_call else arg
        row = self._row(op, process, attempt=attempt, token=token, arg=arg)

        def ask(answer: Callable[[Reply], None]) -> None:
            if lock_call:
                (self._renew if op is Op.RENEW else self._release)(attempt, answer)
            else:
                self._serve(row, answer)

        reply = yield ("call", (ask, GIVE_UP, lambda: None))
        words = RENEW_WORDS if lock_call else {"accepted": Status.OK, "refused": Status.FAIL}
        self._done(row, reply, words)
        row["res"] = arg if op is Op.RENEW else (reply[1] if reply else -1)

    def _worker(self, process: int) -> Client:
        rng = self.rng
        for n in range(1, 1_000):
            yield "sleep", rng.randint(1, 150)
            if self.now >= STOP:
                return
            wait = rng.choice((0, 500, 3_000, 3_000))
            attempt = attempt_id(process, n)
            yield from self._ask(Op.ACQUIRE if wait else Op.TRY, process, attempt, wait)
            token = self._token_of(attempt)
            if token == NO_TOKEN:
                continue
            if rng.random() < 0.7:
                yield from self._call(Op.RENEW, process, attempt, token)
            yield from self._work(process, attempt, token)
            if rng.random() < 0.03:
                dead = self._row(Op.CLOSED, process)
                dead["key"], dead["t_ret"], dead["status"] = 0, self.now, Status.OK
                return
            yield from self._call(Op.RELEASE, process, attempt, token)

    def _work(self, process: int, attempt: int, token: int) -> Client:
        """Read and write a few times without another look at the lease."""
        for _ in range(self.rng.randint(1, 3)):
            yield from self._call(Op.READ, process, attempt, token)
            read = self.rows_of(process, Op.READ)
            pause = self.rng.random() < 0.04
            yield "sleep", self.rng.randint(LEASE, 2 * LEASE) if pause else self.rng.randint(1, 60)
            if read["status"] == Status.OK:
                yield from self._call(Op.WRITE, process, attempt, token, read["res"])

    def _prober(self) -> Client:
        yield from self._ask(Op.PROBE, 99, attempt_id(99, 1), PROBE_WAIT)
        token = self._token_of(attempt_id(99, 1))
        if token != NO_TOKEN:
            yield from self._call(Op.RELEASE, 99, attempt_id(99, 1), token)

    def rows_of(self, process: int, op: Op) -> dict[str, int]:
        """The latest row of a kind that a client has written."""
        return next(r for r in reversed(self.rows) if r["process"] == process and r["f"] == op)

    def _token_of(self, attempt: int) -> int:
        asked = (Op.ACQUIRE, Op.TRY, Op.PROBE)
        return next(r for r in self.rows if r.get("attempt") == attempt and r["f"] in asked)[
            "token"
        ]
