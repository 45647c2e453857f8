"""Properties of a run beside the exact models that imply them, on histories drawn at random.

    python -m tests.checkers.exact_models COUNT [SEED]

Of calls whose outcomes are known, each by its own attempt, a model is exact; so is a property if
only a release frees the lock (or, of leases, only what ok releases prove counts). Each is to be
violated exactly where the other is: a property that misses one is blind, one more accuses a lock.
The properties are judged with everything that they rely on, the models from the bare calls.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.checkers.linearizability import locks, read_write, reentrant, semaphore
from holdfast.checkers.linearizability.judgement import Model
from holdfast.checkers.properties import mutual_exclusion, token_order
from holdfast.harness.core.case import Case, Checker, History
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import NO_TOKEN, PLAIN, Mode, Op, Status, Terms, attempt_id
from holdfast.harness.core.verdict import Finding, Verdict
from holdfast.harness.foreign.operations import OPEN, ForeignOp
from holdfast.harness.properties import PROPERTIES
from tests.checkers.shorthand import case, table

TICK = SECOND // 10
TOGETHER = 200
"""histories in one case, a lock each"""
CLIENTS = 4
"""process numbers that each has"""
ENDLESS: dict[str, Any] = {"bound": "none"}
PROVED: dict[str, Any] = {"bound": "lease", "release_once": False}
"""Leases without a length, which bind nobody: only what an ok release proves counts."""


@dataclass(slots=True)
class Turn:
    """An acquire and its release, in ticks. left: its release, None for none."""

    process: int
    inv: int
    ret: int
    status: Status = Status.OK
    token: int = NO_TOKEN
    mode: Mode = Mode.EXCLUSIVE
    left: tuple[int, int, Status] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A model, and the properties of which one is to be violated where it is.

    terms     of the acquires; owned: the model's owner is the process, not the attempt
    released  the outcomes of releases, drawn evenly
    deep      a client may come again while it holds
    tokens    grants carry one, mostly in order
    unknown   acquires without an answer
    """

    model: Model
    checkers: Sequence[Checker]
    promises: dict[str, Any]
    terms: Terms = PLAIN
    owned: bool = False
    released: Sequence[Status] = (Status.OK,)
    deep: bool = True
    tokens: bool = False
    shares: bool = False
    unknown: bool = False


EXCLUSION, ORDER = mutual_exclusion.check, token_order.check
FAILS = (Status.OK, Status.OK, Status.OK, Status.FAIL)
PAIRS = {
    "owner-mutex": Pair(
        model=locks.owner_mutex, checkers=(EXCLUSION,), promises=ENDLESS, released=FAILS
    ),
    "fenced": Pair(
        model=locks.fenced,
        checkers=(EXCLUSION, ORDER),
        promises=ENDLESS,
        released=FAILS,
        tokens=True,
    ),
    "lease-mutex": Pair(
        model=locks.lease_mutex,
        checkers=(EXCLUSION,),
        promises=PROVED,
        released=(*FAILS, Status.NOT_OWNER, Status.INFO),
        unknown=True,
    ),
    "reentrant": Pair(
        model=reentrant.reentrant,
        checkers=(EXCLUSION,),
        promises=ENDLESS,
        terms=Terms(reenter=True),
        owned=True,
    ),
    "rw": Pair(
        model=read_write.read_write,
        checkers=(EXCLUSION,),
        promises=ENDLESS,
        deep=False,
        shares=True,
    ),
    "semaphore:2": Pair(
        model=semaphore.semaphore("2"),
        checkers=(EXCLUSION,),
        promises=ENDLESS,
        terms=Terms(mode=Mode.PERMITS, permits=1, limit=2),
        released=FAILS,
    ),
}


def drawn(rng: random.Random, pair: Pair) -> list[Turn]:
    """Clients that ask for one lock one call after the other, a service that grants at random.

    Where owners are clients, time passes between two calls of one: entries that end and begin at
    one instant are one hold to the model, two to the property.
    """
    turns = list[Turn]()
    crowd, gap = rng.choice((4, 9, 18, 40)), int(pair.owned)
    for process in range(rng.choice((1, 2, 2, 3))):
        now, held = rng.randrange(crowd), list[Turn]()
        for _ in range(rng.choice((1, 2, 3, 4))):
            if held and (not pair.deep or rng.random() < 0.7):
                out = held.pop(rng.randrange(len(held)))
                now, status = now + gap + rng.randrange(3), rng.choice(pair.released)
                out.left = (now, now + rng.randrange(4), status)
                now = out.left[1]
                # Who was told that nothing happened tries no more: one release has each attempt.
                if status is Status.INFO:
                    break
            now += gap + rng.randrange(4)
            one = Turn(process, now, now + rng.randrange(5))
            if pair.shares and rng.random() < 0.5:
                one.mode = Mode.SHARED
            draw = rng.random()
            if draw < 0.1:
                one.status = Status.FAIL
            elif pair.unknown and draw < 0.25:
                one.status = Status.INFO
            turns.append(one)
            now = one.ret
            if one.status is not Status.FAIL:
                held.append(one)
            if one.status is Status.INFO and rng.random() < 0.5:
                break
        for out in held:
            now += gap + rng.randrange(3)
            if rng.random() < 0.8:
                out.left = (now, now + rng.randrange(4), rng.choice(pair.released))
                now = out.left[1]
    _with_tokens(rng, turns, pair)
    return turns


def _with_tokens(rng: random.Random, turns: Sequence[Turn], pair: Pair) -> None:
    """In order of return, but for a few."""
    token = 0
    for one in sorted(turns, key=lambda turn: turn.ret) if pair.tokens else ():
        token += rng.choice((1, 1, 1, 1, 1, 1, 1, 0, 0, -1, 2))
        one.token = max(0, token)
        if one.status is not Status.OK:
            one.token = NO_TOKEN


def as_case(histories: Sequence[Sequence[Turn]], pair: Pair) -> Case:
    """As a run recorded them: each history has a lock and clients of its own."""
    rows = list[dict[str, int]]()
    for key, turns in enumerate(histories, 1):
        for n, one in enumerate(turns, 1):
            terms = replace(pair.terms, mode=one.mode) if pair.shares else pair.terms
            process = CLIENTS * key + one.process
            own = {"process": process, "attempt": attempt_id(process, n), "key": key}
            own |= {"token": one.token, "mode": terms.mode, "op": terms.packed()}
            calls = [(Op.ACQUIRE, one.inv, one.ret, one.status)]
            if one.left is not None:
                calls.append((Op.RELEASE, *one.left))
            for f, inv, ret, status in calls:
                times = {"t_inv": (inv + 1) * TICK, "t_ret": (ret + 1) * TICK}
                rows.append(own | times | {"f": f, "status": status, "row": len(rows)})
    names = [lock_of(n) for n in range(len(histories))]
    history = History(rows=table(rows), strings=["", *names], writers=("all",))
    keeps = dict.fromkeys(PROPERTIES, ("any",))
    return case(history, promises={**pair.promises, "keeps": keeps}, lease_ns=0)


def lock_of(n: int) -> str:
    """The lock of the n-th history of a case."""
    return f"db {n}"


def violated(histories: Sequence[Sequence[Turn]], pair: Pair) -> Mapping[str, Finding]:
    """Per lock of a case the first finding of any of the properties."""
    given, found = as_case(histories, pair), dict[str, Finding]()
    for check in pair.checkers:
        for finding in check(given).findings:
            found.setdefault(finding.lock, finding)
    return found


def as_operations(turns: Sequence[Turn], pair: Pair) -> list[ForeignOp]:
    """As a foreign history."""
    found = list[tuple[int, int, ForeignOp]]()
    for n, one in enumerate(turns, 1):
        calls = [("acquire", one.inv, one.ret, one.status)]
        if one.left is not None:
            calls.append(("release", *one.left))
        for f, inv, ret, status in calls:
            op = ForeignOp(
                process=one.process,
                f=f,
                key="db",
                value=None,
                result=None,
                begin=inv,
                end=OPEN if status is Status.INFO else ret,
                status=status,
                told_value=False,
                token=one.token if f == "acquire" else NO_TOKEN,
                attempt=None if pair.owned else n,
                shared=one.mode is Mode.SHARED,
                line=2 * n,
            )
            found.append((inv, n, op))
    return [op for _, _, op in sorted(found, key=lambda each: each[:2])]


def compare(name: str, count: int, seed: str) -> Counter[str]:
    """Judges so many histories both ways; fails at the first that differs.

    The properties judge many at once, which are one run of many locks; every TOGETHER-th is judged
    alone too, and has to come out the same.
    """
    pair, rng = PAIRS[name], random.Random(f"exact models {name} {seed}")
    seen = Counter[str]()
    for begin in range(0, count, TOGETHER):
        some = [drawn(rng, pair) for _ in range(min(TOGETHER, count - begin))]
        listed = [as_operations(turns, pair) for turns in some]
        found = violated(some, pair)
        assert bool(found.get(lock_of(0))) == bool(violated(some[:1], pair)), f"{name} {begin}"
        for n, (turns, ops) in enumerate(zip(some, listed, strict=True)):
            if pair.tokens and not any(op.token != NO_TOKEN for op in ops):
                seen["without a grant"] += 1
                continue
            wrong = pair.model(ops).verdict is Verdict.VIOLATED
            one = found.get(lock_of(n))
            where = f"{name} {seed} {begin + n}: {one}\n" + "\n".join(map(str, turns))
            assert (one is not None) == wrong, where
            seen["violated" if wrong else "holds"] += 1
    return seen


def main(count: int, seed: str) -> None:
    """Every pair; a line for each."""
    for name in PAIRS:
        begun = time.process_time()
        seen = compare(name, count, seed)
        spent = time.process_time() - begun
        sys.stdout.write(f"{name}: {count} histories, {dict(seen)}, 0 differ, {spent:.0f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), (sys.argv[2:] or ["0"])[0])
