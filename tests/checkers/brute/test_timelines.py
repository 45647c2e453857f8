"""The exclusion and token checkers against every possible course of events."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from holdfast.checkers.holds.held_at_once import overlaps
from holdfast.checkers.properties import mutual_exclusion, token_order
from holdfast.harness.core.case import Case, History
from holdfast.harness.core.verdict import Verdict
from tests.checkers.brute.timelines import Asked, Rules, draw, possible, rows
from tests.checkers.shorthand import case, table
from tests.draws import Draws

HORIZON = 10
LEASE = Rules(bound="lease", ordered=True, release_says=True, slip=0, horizon=HORIZON + 6)
REGIMES = {
    "leases with tokens": LEASE,
    "leases without tokens, a slip": replace(LEASE, ordered=False, slip=1),
    "leases whose releases say little": replace(LEASE, release_says=False),
    "only a release frees": replace(LEASE, bound="none", ordered=False),
    "only a release frees, and says little": replace(
        LEASE, bound="none", ordered=False, release_says=False
    ),
    "connections with tokens": replace(LEASE, bound="connection"),
    "connections without tokens": replace(LEASE, bound="connection", ordered=False),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """What the checkers and the plain judge say of one history."""

    accused: bool
    accused_in_time: bool
    possible: bool
    possible_in_time: bool


def compare(asked: list[Asked], rules: Rules) -> Compared:
    told = case_of(asked, rules)
    verdicts = {mutual_exclusion.check(told).verdict, token_order.check(told).verdict}
    return Compared(
        accused=Verdict.VIOLATED in verdicts,
        accused_in_time=any(overlaps(told).values()),
        possible=possible(asked, rules),
        possible_in_time=possible(asked, replace(rules, ordered=False)),
    )


def case_of(asked: list[Asked], rules: Rules) -> Case:
    promises = {
        "bound": rules.bound,
        "tokens": "ordered" if rules.ordered else "none",
        "release_once": rules.release_says,
        "release_proves": rules.release_says,
        "slip_ns": rules.slip,
        "keeps": {"token-order": ("any",), "mutual-exclusion": ("any",)},
    }
    told = History(rows=table(rows(asked)), strings=("", "db"), writers=("w0",))
    return case(told, promises=promises)


def disagreements(name: str, number: int, seed: int) -> Counter[str]:
    """Draws histories and fails at the first on which the two differ; counts the verdicts."""
    rules, rng, seen = REGIMES[name], random.Random(f"{name} {seed}"), Counter[str]()
    for n in range(number):
        asked = draw(rng, rules, HORIZON)
        told = compare(asked, rules)
        where = f"history {n}: {told}\n" + "\n".join(map(str, asked))
        assert told.accused_in_time == (not told.possible_in_time), where
        assert told.accused == (not told.possible), where
        seen["accused" if told.accused else "not accused"] += 1
    return seen


@pytest.mark.parametrize("name", REGIMES)
def test_a_lock_is_accused_exactly_where_no_course_of_events_is_right(
    name: str, draws: Draws
) -> None:
    number = draws(500)
    seen = disagreements(name, number, seed=1)
    assert min(seen["accused"], seen["not accused"]) >= number // 5, seen


@pytest.mark.power
@pytest.mark.parametrize("name", REGIMES)
def test_power_a_lock_is_accused_exactly_where_no_course_of_events_is_right(name: str) -> None:
    disagreements(name, 20_000, seed=2)
