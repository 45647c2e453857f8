"""What is looked up by binary search is what a plain loop over all of it gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from holdfast.checkers.facts.verdicts_by_fault import near, near_any
from holdfast.checkers.opportunities.open_spans import OpenSpans
from holdfast.checkers.opportunities.places.met_spans import _second_best
from holdfast.harness.core.case import Window
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.seeds import stream
from tests.checkers.faults import window
from tests.checkers.shorthand import case as case_of


@pytest.mark.parametrize("seed", range(30))
def test_spans_that_were_open_between_two_times(seed: int) -> None:
    rng = stream(seed, "open spans")
    begun = np.array([rng.randrange(12) for _ in range(rng.randrange(1, 14))])
    over = begun + np.array([rng.randrange(9) for _ in begun])
    entries = np.flatnonzero(np.array([rng.random() < 0.8 for _ in begun]))
    spans = OpenSpans(entries, begun, over)
    for from_ns in range(20):
        for to_ns in range(20):
            met = spans.between(from_ns, to_ns).tolist()
            assert met == [n for n in entries if begun[n] < to_ns and over[n] > from_ns]


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_the_latest_end_of_any_other_client_than_that_with_the_latest(
    seed: int, in_order: bool
) -> None:
    rng = stream(seed, "second best")
    over = np.array([rng.randrange(rng.choice((3, 30))) for _ in range(rng.randrange(1, 14))])
    over = np.sort(over) if in_order else over
    owner = np.array([rng.randrange(3) for _ in over])
    for n, place in enumerate(_second_best(over, owner).tolist()):
        first = max(range(n + 1), key=lambda at: (over[at], at))
        others = [int(over[at]) for at in range(n + 1) if owner[at] != owner[first]]
        assert (place < 0) == (not others)
        assert not others or (over[place] == max(others) and owner[place] != owner[first])


@pytest.mark.parametrize("seed", range(30))
def test_events_near_any_of_several_faults_are_those_near_one_of_them(seed: int) -> None:
    rng = stream(seed, "near any")
    case, windows = case_of(""), list[Window]()
    for _ in range(rng.randrange(6)):
        from_s = rng.randrange(20)
        one = window("pause", "n1", from_s, from_s + rng.randrange(1, 6))
        windows.append(replace(one, traits=Traits(passes=rng.random() < 0.6)))
    t_ns = np.sort([rng.randrange(40) * 10**9 for _ in range(50)])
    from_ns = t_ns - np.array([rng.randrange(15) * 10**9 for _ in t_ns])
    one_by_one = [near(case, each, from_ns, t_ns) for each in windows]
    wanted = np.logical_or.reduce(one_by_one) if windows else np.zeros(len(t_ns), bool)
    assert near_any(case, windows, from_ns, t_ns).tolist() == wanted.tolist()
