"""No model ever differs from a brute force over all orders of small random histories."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pytest

from holdfast.checkers.linearizability import kv, locks, read_write, reentrant, registers, semaphore
from holdfast.checkers.linearizability.judgement import Model
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.foreign.operations import OPEN, ForeignOp
from tests.checkers.models import brute, histories
from tests.draws import Draws

SUITE, POWER = 1200, 20_000
SEED = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """A model and the plain object that it must agree with.

    wider   allows what the model assumes not to occur too: histories that need it are refused
    """

    model: Model
    initial: Hashable
    step: brute.Step
    play: histories.Play
    harm: int = 2
    wider: brute.Step | None = None

    def outside(self, ops: Sequence[ForeignOp]) -> bool:
        """Whether all calls, or those of one process, are explained by `wider` alone.

        Of one process those from some call on, without releases of what it did not acquire.
        """
        if self.wider is None:
            return False
        named = {op.attempt for op in ops if op.f == "acquire"}
        alone = [
            [op for op in ops[n:] if op.process == one.process and op.attempt in named]
            for n, one in enumerate(ops)
        ]
        return any(
            not brute.explained(part, self.initial, self.step)
            and brute.explained(part, self.initial, self.wider)
            for part in (*alone, ops)
        )


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
    "rw": replace(
        of_lock(read_write.read_write, (), brute.read_write, shared=True),
        wider=brute.read_write_reentrant,
    ),
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
    calls = unknown = refused = 0
    for n in range(count):
        rng = stream(SEED, name, n)
        ops = histories.drawn(rng, bench.play, NAMES[n % 3], bench.harm)
        if name == "fenced" and not any(op.f == "acquire" and op.end != OPEN for op in ops):
            continue
        if all(op.end == OPEN for op in ops):
            assert bench.model(ops).verdict is Verdict.UNKNOWN
            continue
        expected = brute.explained(ops, bench.initial, bench.step)
        try:
            judged = bench.model(ops)
        except UsageError:
            assert bench.outside(ops), f"history {n}\n" + "\n".join(map(str, ops))
            refused += 1
            continue
        verdict = Verdict.HOLDS if expected else Verdict.VIOLATED
        assert judged.verdict is verdict, f"history {n}: {judged.reason}\n" + "\n".join(
            map(str, ops)
        )
        assert bool(judged.findings) is not expected
        said[verdict] += 1
        calls += len(ops)
        unknown += sum(op.end == OPEN for op in ops)
    assert min(said.values()) >= 0.2 * sum(said.values()), said
    assert sum(said.values()) + refused > 0.9 * count
    assert (0 < refused < 0.3 * count) == (bench.wider is not None)
    assert 0.15 < unknown / calls < 0.3


@pytest.mark.parametrize("name", BENCHES)
def test_a_model_agrees_with_every_order_tried_by_hand(name: str, draws: Draws) -> None:
    agree(name, draws(SUITE))


@pytest.mark.power
@pytest.mark.parametrize("name", BENCHES)
def test_a_model_agrees_on_many_more(name: str) -> None:
    agree(name, POWER)
