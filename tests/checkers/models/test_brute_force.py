"""No model ever differs from a brute force over all orders of small random histories."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

import pytest

from holdfast.checkers.linearizability import kv, locks, read_write, reentrant, registers, semaphore
from holdfast.checkers.linearizability.judgement import Model
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.foreign.operations import OPEN
from tests.checkers.models import brute, histories

SUITE, POWER = 1200, 20_000
SEED = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """A model and the plain object that it must agree with."""

    model: Model
    initial: Hashable
    step: brute.Step
    play: histories.Play
    harm: int = 2


def of_lock(
    model: Model, initial: Hashable, step: brute.Step, harm: int = 2, **more: bool
) -> Bench:
    play = histories.locks(step, initial, **more)
    return Bench(model=model, initial=initial, step=step, play=play, harm=harm)


BENCHES = {
    "mutex": of_lock(locks.mutex, 0, brute.mutex),
    "owner-mutex": of_lock(locks.owner_mutex, "", brute.owner_mutex),
    "fenced": of_lock(locks.fenced, ("", 0), brute.fenced, tokens=True),
    "lease-mutex": Bench(
        model=locks.lease_mutex,
        initial="",
        step=brute.lease_mutex,
        play=histories.locks(brute.owner_mutex, ""),
        harm=12,
    ),
    "reentrant": of_lock(reentrant.reentrant, (), brute.reentrant),
    "semaphore:1": of_lock(semaphore.semaphore("1"), (), brute.semaphore(1)),
    "semaphore:2": of_lock(semaphore.semaphore("2"), (), brute.semaphore(2)),
    "rw": of_lock(read_write.read_write, (), brute.read_write, shared=True),
    "register": Bench(
        model=registers.register,
        initial="None",
        step=brute.register,
        play=partial(histories.registers, cas=False),
        harm=12,
    ),
    "register of distinct writes": Bench(
        model=registers.register,
        initial="None",
        step=brute.register,
        play=partial(histories.registers, cas=False, once=True),
        harm=12,
    ),
    "cas-register": Bench(
        model=registers.cas_register,
        initial="None",
        step=brute.register,
        play=histories.registers,
        harm=12,
    ),
    "kv": Bench(model=kv.kv, initial="", step=brute.store, play=histories.stores, harm=12),
}
NAMES = ("process", "reused", "attempt")


def agree(name: str, count: int) -> None:
    """Judge `count` histories both ways; both verdicts must be common, unknown outcomes too."""
    bench = BENCHES[name]
    said = {Verdict.HOLDS: 0, Verdict.VIOLATED: 0}
    calls = unknown = 0
    for n in range(count):
        rng = stream(SEED, name, n)
        ops = histories.drawn(rng, bench.play, NAMES[n % 3], bench.harm)
        if name == "fenced" and not any(op.f == "acquire" and op.end != OPEN for op in ops):
            continue
        if all(op.end == OPEN for op in ops):
            assert bench.model(ops).verdict is Verdict.UNKNOWN
            continue
        expected = brute.explained(ops, bench.initial, bench.step)
        judged = bench.model(ops)
        verdict = Verdict.HOLDS if expected else Verdict.VIOLATED
        assert judged.verdict is verdict, f"history {n}: {judged.reason}\n" + "\n".join(
            map(str, ops)
        )
        assert bool(judged.findings) is not expected
        said[verdict] += 1
        calls += len(ops)
        unknown += sum(op.end == OPEN for op in ops)
    assert min(said.values()) >= 0.2 * sum(said.values()), said
    assert sum(said.values()) > 0.9 * count
    assert 0.15 < unknown / calls < 0.3


@pytest.mark.parametrize("name", BENCHES)
def test_a_model_agrees_with_every_order_tried_by_hand(name: str) -> None:
    agree(name, SUITE)


@pytest.mark.power
@pytest.mark.parametrize("name", BENCHES)
def test_a_model_agrees_on_many_more(name: str) -> None:
    agree(name, POWER)
