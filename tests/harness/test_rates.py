"""Bounds and ranks, beside brute force and numbers worked out by hand."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from holdfast.harness.core.statistics import (
    at_most,
    chance_of_greater,
    clopper_pearson,
    least_chance,
    none_in,
)


@pytest.mark.parametrize(("runs", "below"), [(1, 0.95), (12, 0.2209), (200, 0.01487), (0, 1.0)])
def test_none_in_n_runs_leaves_a_rate_possible(runs: int, below: float) -> None:
    assert none_in(runs) == pytest.approx(below, abs=1e-4)


@pytest.mark.parametrize("runs", [1, 7, 200, 5000])
def test_the_bound_is_the_exact_interval_of_no_event(runs: int) -> None:
    assert clopper_pearson(0, runs) == pytest.approx((0.0, none_in(runs)), abs=1e-9)


def test_an_interval_that_tables_give() -> None:
    assert clopper_pearson(3, 12) == pytest.approx((0.0549, 0.5719), abs=1e-4)
    assert clopper_pearson(9, 12) == pytest.approx((1 - 0.5719, 1 - 0.0549), abs=1e-4)
    exact = (0.4685491729717083, 0.5314508270282046)
    assert clopper_pearson(500, 1000) == pytest.approx(exact, abs=1e-9)
    # As the exact sum of 10,000 terms has it.
    assert clopper_pearson(10_000, 20_000) == pytest.approx((0.493046, 0.506954), abs=5e-5)
    assert clopper_pearson(12, 12) == pytest.approx((0.05 ** (1 / 12), 1.0), abs=1e-9)


@pytest.mark.parametrize("rate", [0.0, 0.03, 0.5, 0.97, 1.0])
def test_the_tail_of_a_binomial_is_the_sum_of_its_terms(rate: float) -> None:
    terms = [math.comb(9, k) * rate**k * (1 - rate) ** (9 - k) for k in range(10)]
    for events in range(10):
        assert at_most(events, 9, rate) == pytest.approx(sum(terms[: events + 1]), abs=1e-12)


def by_hand(new: list[float], old: list[float]) -> float:
    """Every way to tell the two sides apart, counted one by one."""
    values = [*new, *old]

    def wins(chosen: tuple[int, ...]) -> float:
        others = [n for n in range(len(values)) if n not in chosen]
        return sum(
            (values[a] > values[b]) + (values[a] == values[b]) / 2 for a in chosen for b in others
        )

    seen = wins(tuple(range(len(new))))
    ways = [wins(c) for c in itertools.combinations(range(len(values)), len(new))]
    return sum(way >= seen for way in ways) / len(ways)


def test_the_rank_test_agrees_with_counting_all_ways() -> None:
    rng = random.Random(7)
    for _ in range(200):
        new = [float(rng.randint(0, 6)) for _ in range(rng.randint(1, 4))]
        old = [float(rng.randint(0, 6)) for _ in range(rng.randint(1, 4))]
        assert chance_of_greater(new, old) == pytest.approx(by_hand(new, old))


def test_its_normal_limit_meets_it_where_both_can_be_had() -> None:
    rng = random.Random(3)
    old = [rng.gauss(0, 1) for _ in range(200)]
    new = [rng.gauss(0.15, 1) for _ in range(200)]
    big = chance_of_greater(new, old)
    wins = sum(a > b for a in new for b in old)
    spread = math.sqrt(200 * 200 * 401 / 12)
    assert big == pytest.approx(0.5 * math.erfc((wins - 20_000) / spread / math.sqrt(2)), abs=1e-3)


def test_one_run_on_each_side_can_never_say_anything() -> None:
    assert chance_of_greater([100.0], [1.0]) == 0.5
    assert chance_of_greater([9.0, 8.0, 7.0], [1.0, 2.0, 3.0]) == least_chance(3, 3) == 0.05
    assert chance_of_greater([], [1.0]) == 1.0
