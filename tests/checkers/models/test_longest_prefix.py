"""The longest explained prefix is the longest one, by a brute force over all orders."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import pytest

from holdfast.checkers.linearizability.longest_prefix import (
    OverBudget,
    Prefix,
    longest_prefix,
    specification,
)
from holdfast.harness.core.operations import Status
from holdfast.harness.core.seeds import stream
from holdfast.harness.foreign.operations import OPEN, ForeignOp
from tests.checkers.models import brute, histories
from tests.checkers.models.test_brute_force import BENCHES, NAMES, Bench
from tests.draws import Draws

SUITE, POWER = 400, 8000
SEED = 11


def numbered(ops: Sequence[ForeignOp]) -> list[ForeignOp]:
    """The same history with a number of its own for every event, as files have them."""
    edges = sorted(
        [(op.begin, 0, n) for n, op in enumerate(ops)]
        + [(op.end, 1, n) for n, op in enumerate(ops)]
    )
    place = {(ends, n): at for at, (_, ends, n) in enumerate(edges)}
    return [
        replace(op, begin=place[0, n], end=OPEN if op.end == OPEN else place[1, n])
        for n, op in enumerate(ops)
    ]


def longest(ops: Sequence[ForeignOp], bench: Bench) -> tuple[int, int]:
    """The number of responses that some order explains, one by one, and of all responses."""
    acts = [op for op in ops if op.status in (Status.OK, Status.INFO)]
    ends = sorted(op.end for op in acts if op.end != OPEN)
    for k in range(len(ends), 0, -1):
        there = [op for op in acts if op.begin <= ends[k - 1]]
        if placed(frozenset(range(len(there))), bench.initial, there, ends[k - 1], bench.step):
            return k, len(ends)
    return 0, len(ends)


def placed(
    left: frozenset[int], state: Hashable, acts: Sequence[ForeignOp], cut: int, step: brute.Step
) -> bool:
    """Whether an order places every operation that ends by `cut`, and of the others any."""
    sure = [n for n in left if acts[n].end <= cut]
    if not sure:
        return True
    for n in left:
        if any(acts[m].end < acts[n].begin for m in sure):
            continue
        after = step(state, acts[n])
        if after is not None and placed(left - {n}, after, acts, cut, step):
            return True
    return False


def is_legal(prefix: Prefix, ops: Sequence[ForeignOp], bench: Bench) -> None:
    """The shown order is one: every step is allowed, none comes before one that ended earlier."""
    state = bench.initial
    for n, op in enumerate(prefix.order):
        after = bench.step(state, op)
        assert after is not None
        state = after
        assert all(later.end >= op.begin for later in prefix.order[n + 1 :])
    lines = {id_of(op) for op in prefix.order}
    ended = sorted((op for op in ops if op.end != OPEN and op.status is Status.OK), key=end_of)
    for op in ended[: prefix.explained]:
        assert id_of(op) in lines
    assert id_of(prefix.stuck) == id_of(ended[prefix.explained])


def id_of(op: ForeignOp) -> tuple[object, ...]:
    return (op.process, op.f, op.begin, op.end, repr(op.value), repr(op.result))


def end_of(op: ForeignOp) -> int:
    return op.end


def compare(name: str, count: int) -> int:
    """Compares `count` random histories; returns how many of them have a shorter prefix."""
    bench, shorter = BENCHES[name], 0
    for n in range(count):
        rng = stream(SEED, name, n)
        ops = numbered(histories.drawn(rng, bench.play, NAMES[n % len(NAMES)], bench.harm))
        spec = specification(name.partition(" of ")[0], ops)
        assert spec is not None
        k, of = longest(ops, bench)
        found = longest_prefix(ops, spec)
        if found is None:
            assert k == of, (name, n)
            continue
        shorter += 1
        assert (found.explained, found.responses) == (k, of), (name, n)
        is_legal(found, ops, bench)
    return shorter


@pytest.mark.parametrize("name", BENCHES)
def test_no_order_explains_more(name: str, draws: Draws) -> None:
    assert compare(name, draws(SUITE)) > draws(SUITE) // 10


@pytest.mark.power
@pytest.mark.parametrize("name", BENCHES)
def test_no_order_explains_more_in_many(name: str) -> None:
    assert compare(name, POWER) > POWER // 10


def test_beyond_its_budget_there_is_no_prefix() -> None:
    rng = stream(SEED, "budget")
    bench = BENCHES["cas-register"]
    ops = histories.drawn(rng, bench.play, "process", 12)
    spec = specification("cas-register", ops)
    assert spec is not None
    with pytest.raises(OverBudget):
        longest_prefix(ops, spec, budget=1)


def test_a_model_without_a_sequential_object_has_none() -> None:
    assert specification("queue.py:Queue", []) is None
    assert specification("semaphore:x", []) is None
