"""A model that differs from brute force is shown by the smallest history in which it does."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.checkers.linearizability import locks
from holdfast.checkers.linearizability.exact.pairing import paired
from holdfast.checkers.linearizability.exact.rules import Rule
from holdfast.checkers.linearizability.judgement import ModelJudgement
from holdfast.checkers.linearizability.locks import EXACT, exactly
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.foreign.operations import OPEN, ForeignOp
from tests.checkers.models import brute, histories
from tests.checkers.models.test_brute_force import BENCHES, NAMES, Bench
from tests.draws import Draws

SUITE, POWER = 25, 3000
QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)


def drawn(bench: Bench) -> st.SearchStrategy[Sequence[ForeignOp]]:
    """The histories of `histories`, by choices that can be made smaller."""

    def played(chance: random.Random, names: str) -> Sequence[ForeignOp]:
        return histories.drawn(chance, bench.play, names, bench.harm)

    return st.builds(played, st.randoms(use_true_random=False), st.sampled_from(NAMES))


def differs(
    bench: Bench, judge: Callable[[Sequence[ForeignOp]], ModelJudgement]
) -> Callable[..., bool]:
    """Whether a judge says something else of a history than every order tried by hand."""

    def found(ops: Sequence[ForeignOp]) -> bool:
        told = any(op.f == "acquire" and op.end != OPEN for op in ops)
        if not told and bench is BENCHES["fenced"]:
            return False
        right = brute.explained(ops, bench.initial, bench.step)
        try:
            judged = judge(ops)
        except UsageError:
            return not bench.outside(ops)
        if judged.verdict is Verdict.UNKNOWN and not judged.exercised["ok"]:
            return not right
        return (judged.verdict is Verdict.HOLDS) is not right

    return found


def least(
    ops: Sequence[ForeignOp], wrong: Callable[[Sequence[ForeignOp]], bool]
) -> Sequence[ForeignOp]:
    """What is left when no operation, and no two, can be left out any more.

    Hypothesis makes the choices small, this makes the history short.
    """
    for one, other in combinations_with_replacement(range(len(ops)), 2):
        fewer = [op for n, op in enumerate(ops) if n not in (one, other)]
        if wrong(fewer):
            return least(fewer, wrong)
    return ops


def agree(name: str, count: int) -> None:
    bench = BENCHES[name]
    wrong = differs(bench, bench.model)

    @settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=QUIET,
    )
    @given(drawn(bench))
    def same(ops: Sequence[ForeignOp]) -> None:
        assert not wrong(ops), "\n".join(map(str, least(ops, wrong)))

    same()


@pytest.mark.parametrize("name", BENCHES)
def test_a_model_agrees_and_would_be_shown_the_smallest_history_where_not(
    name: str, draws: Draws
) -> None:
    agree(name, draws(SUITE))


@pytest.mark.power
@pytest.mark.parametrize("name", BENCHES)
def test_a_model_agrees_on_many_more_drawn_histories(name: str) -> None:
    agree(name, POWER)


def blind_to_unknown_acquires(ops: Sequence[ForeignOp]) -> ModelJudgement:
    """A judge with a bug: an unknown acquire counts for nothing, though its release was ok."""
    lost = {op.attempt for op in ops if op.f == "acquire" and op.end == OPEN}
    kept = [op for op in ops if op.attempt is None or op.attempt not in lost]
    return exactly(paired(kept), kept, Rule(), EXACT)


def deaf_to_tokens(ops: Sequence[ForeignOp]) -> ModelJudgement:
    """Another: it does not look at tokens."""
    return locks.owner_mutex(ops)


@pytest.mark.parametrize(
    ("judge", "name"), [(deaf_to_tokens, "fenced"), (blind_to_unknown_acquires, "owner-mutex")]
)
def test_a_wrong_judge_is_shown_by_a_handful_of_operations(
    judge: Callable[[Sequence[ForeignOp]], ModelJudgement], name: str
) -> None:
    bench, shown = BENCHES[name], 0
    wrong = differs(bench, judge)
    for n in range(300):
        ops = histories.drawn(stream(5, name, n), bench.play, "attempt", bench.harm)
        if wrong(ops):
            shown += 1
            assert len(least(ops, wrong)) <= 5, "\n".join(map(str, least(ops, wrong)))
    assert shown >= 3
