"""The slow, plain judge: is there any course of events in which the service did as it promised?

Time is a few whole ticks. For every attempt each tick of grant and each tick at which every one of
its calls may have taken effect is tried, the end of its hold is worked out by walking through them,
and then every choice for every attempt is held against every other. No formula of the checkers is
used.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, pairwise, permutations, product

from holdfast.harness.core.operations import NO_TOKEN, Op, Status, attempt_id

NEVER = 10_000
Hold = tuple[int, int]
"""[granted, free again)"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A renewal or release. ttl: asked for and granted, in ticks."""

    op: Op
    inv: int
    ret: int
    status: Status
    ttl: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One acquire and the calls that followed from it, each begun after the one before."""

    process: int
    inv: int
    ret: int
    status: Status
    token: int
    ttl: int
    calls: tuple[Call, ...]

    def says(self, rules: Rules) -> list[Call]:
        """Its calls whose ok means that it owned the lock."""
        meant = (Op.RENEW, Op.RELEASE) if rules.release_says else (Op.RENEW,)
        return [call for call in self.calls if call.status is Status.OK and call.op in meant]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What the service promises. release_says: its ok to a release means "owned until now"."""

    bound: str
    ordered: bool
    release_says: bool
    slip: int
    horizon: int


def possible(asked: Sequence[Asked], rules: Rules) -> bool:
    """Whether one choice of holds, one for each attempt, breaks no rule."""
    choices = [holds(one, rules) for one in asked]
    return _extends([], asked, choices, rules)


def _extends(
    chosen: list[Hold | None],
    asked: Sequence[Asked],
    choices: Sequence[Sequence[Hold | None]],
    rules: Rules,
) -> bool:
    n = len(chosen)
    if n == len(asked):
        return True
    for hold in choices[n]:
        fits = all(_fit(asked[m], chosen[m], asked[n], hold, rules) for m in range(n))
        if fits and _extends([*chosen, hold], asked, choices, rules):
            return True
    return False


def _fit(a: Asked, held_a: Hold | None, b: Asked, held_b: Hold | None, rules: Rules) -> bool:
    if held_a is None or held_b is None:
        return True
    a_first, b_first = held_a[1] <= held_b[0], held_b[1] <= held_a[0]
    if a.process == b.process and rules.bound == "connection":
        # Its session owns the lock, and is let in again; nobody here asks for that otherwise.
        a_first, b_first = held_a[0] <= held_b[0], held_b[0] <= held_a[0]
    if rules.ordered and NO_TOKEN not in (a.token, b.token):
        return a_first if a.token < b.token else b_first
    return a_first or b_first


def holds(one: Asked, rules: Rules) -> tuple[Hold | None, ...]:
    """For each tick at which it may have been granted the shortest hold; None: never granted.

    A shorter hold never stands in anybody's way where a longer one does not.
    """
    shift = one.inv
    moved = replace(
        one,
        inv=0,
        ret=one.ret - shift,
        process=0,
        token=0,
        calls=tuple(replace(c, inv=c.inv - shift, ret=c.ret - shift) for c in one.calls),
    )
    found = _holds(moved, replace(rules, horizon=rules.horizon - shift, ordered=False))
    return tuple(hold and (hold[0] + shift, hold[1] + shift) for hold in found)


@lru_cache(maxsize=200_000)
def _holds(one: Asked, rules: Rules) -> tuple[Hold | None, ...]:
    if one.status is Status.FAIL:
        return (None,)
    if one.status is Status.INFO and not one.says(rules):
        return (None,)
    last = one.ret if one.status is Status.OK else rules.horizon
    found: list[Hold | None] = []
    courses = [
        (effects, order)
        for effects in product(*(_effects(call, rules) for call in one.calls))
        for order in _orders(effects)
    ]
    says = [call in one.says(rules) for call in one.calls]
    for granted in range(one.inv, last + 1):
        ends = [_end(one, granted, effects, order, says, rules) for effects, order in courses]
        right = [end for end in ends if end >= 0]
        if right:
            found.append((granted, min(right)))
    return tuple(found)


def _effects(call: Call, rules: Rules) -> list[int | None]:
    """The ticks at which a call may have taken effect; None: it never did."""
    if call.status is Status.OK:
        return list(range(call.inv, call.ret + 1))
    if call.status is Status.INFO:
        return [None, *range(call.inv, rules.horizon + 1)]
    return [None]


def _orders(effects: tuple[int | None, ...]) -> Iterator[tuple[int, ...]]:
    """Every order of the calls that took effect which the ticks allow."""
    done = sorted((tick, n) for n, tick in enumerate(effects) if tick is not None)
    if all(a[0] < b[0] for a, b in pairwise(done)):
        yield tuple(n for _, n in done)
        return
    at_once = [[n for _, n in tied] for _, tied in groupby(done, key=lambda one: one[0])]
    for order in product(*map(permutations, at_once)):
        yield tuple(n for part in order for n in part)


def _end(
    one: Asked,
    granted: int,
    effects: tuple[int | None, ...],
    order: tuple[int, ...],
    says: Sequence[bool],
    rules: Rules,
) -> int:
    """When the hold ends at the earliest; -1 where the answers contradict that course of events.

    says   of each call whether its answer tells that the attempt owned
    """
    lease_end = one.inv + one.ttl - rules.slip
    kept_until, released, owned_until_then = granted, -1, False
    for n in order:
        call, tick = one.calls[n], effects[n]
        assert tick is not None
        if tick < granted or released >= 0:
            if says[n]:
                return -1
        elif call.op is Op.RENEW:
            kept_until, lease_end = tick, tick + call.ttl - rules.slip
        else:
            released, owned_until_then = tick, says[n]
    free = {"lease": max(kept_until, lease_end), "connection": kept_until, "none": NEVER}
    if released < 0:
        return free[rules.bound]
    return released if owned_until_then else min(released, free[rules.bound])


def draw(rng: random.Random, rules: Rules, horizon: int) -> list[Asked]:
    """Three clients, up to three attempts each: late answers, no answers, renewals, two releases.

    A client that did not give a lock back does not ask again. One that does not know that it was
    granted a lease does not renew it: the checkers say nothing of such a lease.

    Tokens follow the order of answers; now and then they do not.
    """
    asked = [one for process in range(3) for one in _client(rng, process, rules, horizon)]
    rng.shuffle(asked)
    asked.sort(key=lambda one: one.ret)
    for _ in range(rng.choice((0, 0, 1))):
        if len(asked) > 1:
            n = rng.randrange(len(asked) - 1)
            asked[n], asked[n + 1] = asked[n + 1], asked[n]
    return [replace(one, token=n if rules.ordered else NO_TOKEN) for n, one in enumerate(asked, 1)]


def _client(rng: random.Random, process: int, rules: Rules, horizon: int) -> Iterator[Asked]:
    now = rng.randrange(horizon // 2)
    for _ in range(rng.choice((2, 3))):
        inv, ret = now, now + rng.randrange(4)
        status = rng.choices((Status.OK, Status.INFO, Status.FAIL), (7, 2, 1))[0]
        now = ret + rng.randrange(2)
        calls: list[Call] = []
        wanted = [Op.RENEW] * rng.choice((0, 1, 1)) + [Op.RELEASE] * rng.choice((0, 1, 1, 1, 2))
        if status is Status.INFO and rules.bound == "lease":
            wanted = [op for op in wanted if op is not Op.RENEW]
        for op in wanted if status is not Status.FAIL else ():
            gone = any(c.op is Op.RELEASE and c.status is Status.OK for c in calls)
            outcome = Status.INFO if gone else rng.choices((Status.OK, Status.INFO), (4, 1))[0]
            back = now + rng.randrange(3)
            ttl = rng.randrange(1, 5) if op is Op.RENEW else 0
            calls.append(Call(op=op, inv=now, ret=back, status=outcome, ttl=ttl))
            now = back + rng.randrange(3)
        if now > horizon:
            return
        yield Asked(
            process=process,
            inv=inv,
            ret=ret,
            status=status,
            token=NO_TOKEN,
            ttl=rng.randrange(1, 6),
            calls=tuple(calls),
        )
        released = any(call.op is Op.RELEASE for call in calls)
        if (status is Status.OK or calls) and not released:
            return
        now += rng.randrange(3)


def rows(asked: Sequence[Asked]) -> list[dict[str, int]]:
    """The rows that the clients would have written, a tick late: a return at 0 means never."""
    written = []
    for n, one in enumerate(asked, 1):
        same = {"process": one.process, "attempt": attempt_id(one.process, n), "key": 1}
        token = one.token if one.status is Status.OK else NO_TOKEN
        edges = {"t_inv": one.inv + 1, "t_ret": one.ret + 1, "status": one.status}
        written.append(
            same | edges | {"f": Op.ACQUIRE, "token": token, "arg": one.ttl, "res": one.ttl}
        )
        for call in one.calls:
            edges = {"t_inv": call.inv + 1, "t_ret": call.ret + 1, "status": call.status}
            more = {"f": call.op, "token": one.token, "arg": call.ttl, "res": call.ttl}
            written.append(same | edges | more)
    return written
