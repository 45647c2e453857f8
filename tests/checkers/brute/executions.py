"""Every course of events, on whole ticks, in which a lease service kept its promises.

For each attempt all holds that it may have had; a run is possible if one of each can be chosen so
that no two owners hold at once. Nothing of the checkers is used here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import NO_TOKEN, Op, Status, attempt_id

Hold = tuple[int, int]
END = 40
LOCKS = ("", "db", "/a", "/a/b", "/a/bc", "/a/b/d")
"""What may be asked for; a path stands for its subtree."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A renewal or a release with the lease that it asks for, in ticks."""

    op: Op
    inv: int
    ret: int
    status: Status
    ttl: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """One acquire and what followed from it."""

    op: Op
    process: int
    n: int
    inv: int
    ret: int
    status: Status
    ttl: int
    calls: tuple[Call, ...] = ()
    lock: str = "db"

    def holds(self) -> list[Hold]:
        """Every hold that explains its answers; one of unknown outcome may start at any time."""
        if self.status is Status.FAIL:
            return []
        last = self.ret if self.status is Status.OK else END
        found = set()
        for start in range(self.inv, last + 1):
            for effects in product(*(_effects(call) for call in self.calls)):
                for order in self._orders():
                    end = _end(self, start, effects, order)
                    if end is not None:
                        found.add((start, end))
        return sorted(found)

    def _orders(self) -> Iterator[tuple[int, ...]]:
        """Calls took effect one after the other; only an unanswered one may come later."""
        for order in permutations(range(len(self.calls))):
            answered = [n for n in order if self.calls[n].status is not Status.INFO]
            if answered == sorted(answered):
                yield order


def _effects(call: Call) -> list[int | None]:
    ticks: list[int | None] = list(range(call.inv, call.ret + 1))
    if call.status is Status.INFO:
        return [None, *range(call.inv, min(call.inv + 8, END))]
    return ticks


def _end(ask: Ask, start: int, effects: Sequence[int | None], order: Sequence[int]) -> int | None:
    """When the hold ends; None where the order or an answer contradicts it."""
    until, released, before = start + ask.ttl, END * 2, -1
    for n in order:
        call, tick = ask.calls[n], effects[n]
        if tick is None:
            continue
        if tick < before:
            return None
        before = tick
        held = start <= tick <= min(until, released)
        if call.status is Status.OK and not held:
            return None
        if call.status is Status.NOT_OWNER and tick < min(until, released):
            return None
        if call.status is Status.NOT_OWNER or (held and call.op is Op.RELEASE):
            released = min(tick, released)
        elif held:
            until = tick + call.ttl
    return min(until, released)


def courses(asks: Sequence[Ask]) -> Iterator[tuple[Hold | None, ...]]:
    """Every possible choice of holds, None for an acquire that was never granted."""
    choices: list[list[Hold | None]] = []
    for ask in asks:
        never: list[Hold | None] = [] if ask.status is Status.OK else [None]
        choices.append([*never, *ask.holds()])
    yield from _extend(asks, choices, ())


def _extend(
    asks: Sequence[Ask],
    choices: Sequence[Sequence[Hold | None]],
    chosen: tuple[Hold | None, ...],
) -> Iterator[tuple[Hold | None, ...]]:
    n = len(chosen)
    if n == len(asks):
        yield chosen
        return
    for hold in choices[n]:
        if all(_apart(asks[m], chosen[m], asks[n], hold) for m in range(n)):
            yield from _extend(asks, choices, (*chosen, hold))


def _apart(a: Ask, held_a: Hold | None, b: Ask, held_b: Hold | None) -> bool:
    if held_a is None or held_b is None or a.process == b.process:
        return True
    if any(x != y for x, y in zip(a.lock.split("/"), b.lock.split("/"), strict=False)):
        return True
    return held_a[1] <= held_b[0] or held_b[1] <= held_a[0]


def owner(rng: random.Random, process: int, n: int, at: int) -> Ask:
    """An acquire that was granted, renewed perhaps and given back perhaps, answers unknown too."""
    ret = at + rng.randint(1, 2)
    calls = []
    now, gone = ret, False
    for op in rng.choice(((), (Op.RENEW,), (Op.RELEASE,), (Op.RENEW, Op.RELEASE))):
        inv = now + rng.randint(0, 4)
        now = inv + rng.randint(0, 2)
        status = rng.choices((Status.OK, Status.INFO, Status.NOT_OWNER), (6, 2, 1))[0]
        status = Status.NOT_OWNER if gone else status
        gone = gone or status is Status.NOT_OWNER
        calls.append(Call(op=op, inv=inv, ret=now, status=status, ttl=rng.randint(1, 4)))
    ttl = rng.randint(1, 5)
    return Ask(
        op=Op.ACQUIRE,
        process=process,
        n=n,
        inv=at,
        ret=ret,
        status=Status.OK,
        ttl=ttl,
        calls=tuple(calls),
    )


def rows(asks: Sequence[Ask]) -> list[dict[str, int]]:
    """What the clients would have written; one tick is a second."""
    written = []
    for ask in asks:
        same = {
            "process": ask.process,
            "attempt": attempt_id(ask.process, ask.n),
            "key": LOCKS.index(ask.lock),
            "token": NO_TOKEN,
            "writer": ask.process,
        }
        for op, inv, ret, status, ttl in (
            (ask.op, ask.inv, ask.ret, ask.status, ask.ttl),
            *((c.op, c.inv, c.ret, c.status, c.ttl) for c in ask.calls),
        ):
            edges = {"t_inv": inv * SECOND, "t_ret": ret * SECOND, "status": status}
            lease = {"arg": ttl * SECOND, "res": ttl * SECOND, "aux": -1}
            written.append({**same, **edges, **lease, "f": op})
    return written
