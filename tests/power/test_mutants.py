"""Planted bugs are found by the one swarm that also finds nothing in the correct service."""

from __future__ import annotations

import pytest

from holdfast import catalogue
from holdfast.catalogue.mutants import AREAS, ASSERTION, MUTANTS, TRACE
from holdfast.clusters.systems.majority.mutants import CLIENTS as VOTERS
from holdfast.clusters.systems.reference.mutants.client import CLIENTS
from holdfast.clusters.systems.reference.mutants.node import NODES
from holdfast.engine.seed_search import Seed, one_seed
from holdfast.harness.properties import PROPERTIES
from holdfast.workloads.resource.mutants import STORES

QUICK = {
    "token-reset": 15,
    "early-expiry": 30,
    "dead-predecessor": 20,
    "lingering-holds": 30,
    "silent-renewal": 40,
    "outer-release": 20,
    "unchecked-tokens": 30,
}
"""One of each area that `make test` looks for, and within how many seeds."""


def caught(seed: Seed, breaks: str) -> bool:
    """Whether a seed shows the bug as it has to be shown."""
    if not seed.found:
        return False
    if breaks == TRACE:
        return seed.departure is not None
    if breaks == ASSERTION:
        return any("exited unexpectedly: AssertionError" in problem for problem in seed.problems)
    return breaks in [prop for prop, _ in seed.alarms]


def search(name: str, seeds: int) -> int:
    """The first seed that shows a planted bug; 0 for none."""
    row = MUTANTS[name]
    for number in range(1, seeds + 1):
        traced = row.breaks == TRACE
        seed = one_seed(number, row.system, {"mutant": name}, validated=traced)
        if caught(seed, row.breaks):
            return number
    return 0


def test_every_planted_bug_is_described_and_every_description_planted() -> None:
    parts = {
        "reference": [name for name in (*NODES, *CLIENTS) if name != "no-lock-delay"],
        "chubby": ["no-lock-delay"],
        "resource": list(STORES),
        "majority": list(VOTERS),
    }
    assert {name: row.part for name, row in MUTANTS.items()} == {
        name: part for part, names in parts.items() for name in names
    }
    for row in MUTANTS.values():
        assert row.breaks in (*PROPERTIES, ASSERTION, TRACE)
        assert row.checker in (*catalogue.CHECKERS.values(), ASSERTION, TRACE)
    assert {row.area for row in MUTANTS.values()} == set(AREAS)
    assert {MUTANTS[name].area for name in QUICK} == set(AREAS)


@pytest.mark.parametrize("name", list(QUICK))
def test_a_classic_bug_is_found_at_once(name: str) -> None:
    assert search(name, QUICK[name])


def test_a_few_seeds_of_the_correct_service_raise_no_alarm() -> None:
    for number in range(101, 109):
        seed = one_seed(number, "reference", {}, validated=True)
        assert not seed.departure, seed
        assert not seed.alarms, seed
        assert not seed.problems, seed


@pytest.mark.power
@pytest.mark.parametrize("name", list(MUTANTS))
def test_a_planted_bug_is_found_within_its_budget(name: str) -> None:
    assert search(name, MUTANTS[name].seeds)


@pytest.mark.power
@pytest.mark.parametrize("system", ["reference", "single"])
def test_many_seeds_raise_no_alarm(system: str) -> None:
    for number in range(10_000, 10_500):
        seed = one_seed(number, system, {}, validated=True)
        assert not seed.departure, seed
        assert not seed.alarms, seed
        assert not seed.problems, seed
