"""Random small histories, about as many right as wrong, with outcomes that nobody learned.

An object is played through in true order; each call then gets an interval around its moment, and
one of five stays without an answer. Wrong ones are right ones in which something was moved,
forgotten or answered otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import replace

from holdfast.harness.core.operations import NO_TOKEN, Status
from holdfast.harness.foreign.operations import OPEN, ForeignOp
from tests.checkers.models import brute

STEP = 10
UNKNOWN = 0.2
Play = Callable[[random.Random, "Clients"], list[ForeignOp]]


class Clients:
    """Three or four clients; what they do next, and under which name after an unknown outcome.

    names   "process": a client that never learned an outcome comes back under another name;
            "reused": it goes on under its own; "attempt": every acquire has an identity
    """

    def __init__(self, rng: random.Random, names: str) -> None:
        self.rng = rng
        self.names = names
        self.count = rng.choice((3, 3, 4))
        self.process = list(range(self.count))
        self.attempts = 0
        self._next = self.count

    def outcome(self) -> Status:
        """Whether the answer to a call gets lost."""
        return Status.INFO if self.rng.random() < UNKNOWN else Status.OK

    def lost(self, client: int) -> None:
        """The client's call was never answered."""
        if self.names == "process":
            self.process[client] = self._next
            self._next += 1


def call(
    process: int,
    f: str,
    at: int,
    status: Status,
    value: Hashable = None,
    result: Hashable = None,
) -> ForeignOp:
    """A call that took effect, if it did, at a moment."""
    return ForeignOp(
        process=process,
        f=f,
        key=None,
        value=value,
        result=result,
        begin=at,
        end=at,
        status=status,
        told_value=result is not None,
    )


def locks(
    step: brute.Step, initial: Hashable, *, shared: bool = False, tokens: bool = False
) -> Play:
    """Plays a lock; what it would refuse is not asked, but for one time in twenty."""

    def play(rng: random.Random, clients: Clients) -> list[ForeignOp]:
        state, ops, at, token = initial, list[ForeignOp](), 0, 0
        holds: dict[int, list[tuple[int | None, bool]]] = {c: [] for c in range(clients.count)}
        wanted = rng.randint(4, 8)
        for _ in range(60):
            if sum(op.f == "acquire" for op in ops) >= wanted:
                break
            client = rng.randrange(clients.count)
            held = holds[client]
            f = "release" if held and rng.random() < 0.75 else "acquire"
            named = clients.attempts if clients.names == "attempt" else None
            reads = shared and f == "acquire" and rng.random() < 0.6
            if f == "release":
                named, reads = held[0]
            op = replace(
                call(clients.process[client], f, at, Status.OK),
                attempt=named,
                shared=reads,
                token=token + 1 if tokens and f == "acquire" else NO_TOKEN,
            )
            after = step(state, op)
            if after is None and rng.random() < 0.95:
                continue
            at += STEP
            status = clients.outcome()
            if after is not None and (status is Status.OK or rng.random() < 0.5):
                state = after
            ops.append(replace(op, status=status))
            token += f == "acquire"
            clients.attempts += f == "acquire" and clients.names == "attempt"
            if f == "acquire":
                held.append((named, reads))
            else:
                held.pop(0)
            if status is Status.INFO:
                clients.lost(client)
                if clients.names == "process":
                    held.clear()
        return ops

    return play


def registers(
    rng: random.Random, clients: Clients, *, cas: bool = True, once: bool = False
) -> list[ForeignOp]:
    """Plays a register with three values; `once`: with a new one for every write."""
    value: Hashable = None
    ops = []
    for n in range(rng.randint(6, 10)):
        client = rng.randrange(clients.count)
        status = clients.outcome()
        takes = status is Status.OK or rng.random() < 0.5
        f = rng.choice(("read", "write", "cas") if cas else ("read", "write"))
        old, new = rng.randrange(3), n if once else rng.randrange(3)
        asked: Hashable = None if f == "read" else new if f == "write" else (old, new)
        answer: Hashable = asked
        if f == "read":
            answer = value
        elif f == "write" or value == old:
            value = new if takes else value
        elif status is Status.OK:
            answer = False
        told = answer if status is Status.OK else None
        ops.append(call(clients.process[client], f, n * STEP, status, asked, told))
        if status is Status.INFO:
            clients.lost(client)
    return ops


def stores(rng: random.Random, clients: Clients) -> list[ForeignOp]:
    """Plays one key of a store of texts."""
    text, ops = "", []
    for n in range(rng.randint(6, 10)):
        client = rng.randrange(clients.count)
        status = clients.outcome()
        takes = status is Status.OK or rng.random() < 0.5
        f = rng.choice(("get", "get", "append", "append", "put"))
        asked = None if f == "get" else rng.choice("abc")
        if asked and takes:
            text = asked if f == "put" else text + asked
        told = text if status is Status.OK else None
        ops.append(call(clients.process[client], f, n * STEP, status, asked, told))
        if status is Status.INFO:
            clients.lost(client)
    return ops


def widened(rng: random.Random, ops: list[ForeignOp], spread: int) -> list[ForeignOp]:
    """The same calls with intervals around their moments; those of a process never overlap."""
    until: dict[int | str, int] = {}
    after: dict[int | str, list[int]] = {}
    for op in ops:
        after.setdefault(op.process, []).append(op.begin)
    wide = []
    for op in ops:
        later = [at for at in after[op.process] if at > op.begin]
        begin = max(op.begin - rng.randint(0, spread), until.get(op.process, -1000) + 1)
        end = op.begin + rng.randint(0, spread)
        if later:
            end = min(end, later[0] - 1)
        until[op.process] = max(end, begin)
        unknown = op.status is Status.INFO
        wide.append(replace(op, begin=begin, end=OPEN if unknown else max(end, begin)))
    return sorted(wide, key=lambda op: op.begin)


def spoiled(rng: random.Random, ops: list[ForeignOp], times: int) -> list[ForeignOp]:
    """The same history with something moved, forgotten or answered otherwise."""
    ops = list(ops)
    for _ in range(times):
        if len(ops) < 3:
            break
        n, m = rng.sample(range(len(ops)), 2)
        kind = rng.randrange(3)
        if kind == 0:
            del ops[n]
        elif kind == 1 and ops[n].f == ops[m].f:
            ops[n], ops[m] = (
                replace(ops[n], result=ops[m].result, token=ops[m].token),
                replace(ops[m], result=ops[n].result, token=ops[n].token),
            )
        else:
            ops = _moved(ops, n, rng.choice((-25, -12, 12, 25)))
    return sorted(ops, key=lambda op: op.begin)


def _moved(ops: list[ForeignOp], n: int, by: int) -> list[ForeignOp]:
    """A call earlier or later, as far as its process's other calls let it."""
    op = ops[n]
    begin, end = op.begin + by, op.end + by if op.end != OPEN else OPEN
    for other in ops:
        if other is op or other.process != op.process:
            continue
        last = other.end if other.end != OPEN else other.begin
        mine = end if end != OPEN else begin
        if begin <= last and other.begin <= mine:
            return ops
        if (other.begin < op.begin) != (other.begin < begin):
            return ops
    return [*ops[:n], replace(op, begin=begin, end=end), *ops[n + 1 :]]


def drawn(rng: random.Random, play: Play, names: str, harm: int) -> list[ForeignOp]:
    """One random history; three of four are spoiled, up to `harm` times."""
    spreads = (4, 15, 30, 60) if harm < 4 else (3, 6, 15)
    ops = widened(rng, play(rng, Clients(rng, names)), rng.choice(spreads))
    return spoiled(rng, ops, rng.randint(1, harm)) if rng.random() < 0.75 else ops
