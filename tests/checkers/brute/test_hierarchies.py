"""Exclusion in a tree of locks against every course of events of a correct lease service."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from holdfast.checkers.properties.mutual_exclusion import check
from holdfast.harness.core.case import Case, History
from holdfast.harness.core.seeds import stream
from tests.checkers.brute.executions import LOCKS, Ask, courses, owner, rows
from tests.checkers.shorthand import case, table
from tests.draws import Draws


def owners(rng: random.Random) -> list[Ask]:
    """Three owners of paths, more or less one after the other."""
    asks, at = [], 0
    for process in range(3):
        asks.append(replace(owner(rng, process, 1, at), lock=rng.choice(LOCKS[2:])))
        at += rng.randint(0, 4)
    return asks


def judged(asks: list[Ask]) -> Case:
    recorded = History(rows=table(rows(asks)), strings=LOCKS, writers=("w",) * 10)
    return case(recorded, promises={"tokens": "none", "subtrees": True})


def compare(seed: int, n: int) -> Counter[str]:
    rng = stream(seed, "hierarchies")
    counts: Counter[str] = Counter()
    while sum(counts.values()) < n:
        asks = owners(rng)
        if not all(ask.holds() for ask in asks):
            continue
        possible = next(courses(asks), None) is not None
        accused = bool(check(judged(asks)).findings)
        assert not (accused and possible), asks
        counts["accused" if accused else "possible" if possible else "missed"] += 1
    return counts


def test_no_holds_in_a_tree_are_accused_that_any_course_of_events_allows(draws: Draws) -> None:
    counts = compare(1, draws(800))
    assert min(counts["accused"], counts["possible"]) >= draws(160), counts
    assert counts["missed"] <= counts["accused"] * 0.2, counts


@pytest.mark.power
def test_no_holds_in_a_tree_are_accused_that_any_course_allows_in_very_many_runs() -> None:
    compare(2, 20_000)
