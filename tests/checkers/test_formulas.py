"""The formulas by their published anchors, and distributions by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from holdfast.checkers.evidence.formulas import lease_margin, quorum_failure, utilisation
from holdfast.checkers.facts.distribution import dist
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.seeds import stream


def test_the_lease_margin_of_the_textbook() -> None:
    assert lease_margin(10, 4, 0.2, 0.3, 1.0) == pytest.approx(4.3)


def test_a_pause_longer_than_the_lease_makes_the_margin_negative() -> None:
    assert lease_margin(10, 4, 0.2, 0.3, 11.0) < 0


@pytest.mark.parametrize(("hold_ms", "rho"), [(4, 0.72), (8, 1.44)])
def test_utilisation_at_180_per_second(hold_ms: int, rho: float) -> None:
    assert utilisation(180, hold_ms / 1000) == pytest.approx(rho)


def test_five_nodes_that_are_down_one_time_in_a_hundred() -> None:
    assert quorum_failure(5, 0.01) == pytest.approx(9.85e-6, rel=1e-3)


def test_a_quorum_of_one_fails_as_often_as_its_node() -> None:
    assert quorum_failure(1, 0.25) == pytest.approx(0.25)
    assert quorum_failure(2, 0.25) == pytest.approx(1 - 0.75**2)


def test_a_chance_beyond_one_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"not 1\.5"):
        quorum_failure(3, 1.5)


def shape(values: list[int]) -> tuple[dict[str, Any], list[int], list[int]]:
    told: dict[str, Any] = plain(dist(values))
    return told, told["histogram"]["edges_ns"], told["histogram"]["counts"]


def test_nothing_measured_has_no_numbers() -> None:
    told, edges, counts = shape([])
    assert told["n"] == 0 and told["p50"] is None and edges == counts == []


def test_quantiles_are_values_that_were_measured() -> None:
    told, _, _ = shape(list(range(1, 101)))
    assert (told["min"], told["p50"], told["p90"], told["p99"], told["max"]) == (
        1,
        51,
        91,
        100,
        100,
    )
    assert told["mean"] == 50


@pytest.mark.parametrize("low", [1, 7, 1_000_000, 0, -5_000_000])
@pytest.mark.parametrize("high", [8, 1_000_001, 30_000_000_000])
def test_every_value_lies_in_one_of_at_most_forty_bins(low: int, high: int) -> None:
    rng = stream(3, "bins", low, high)
    # Both ends are among them: durations from 1 ns to 30 s span ten decades.
    values = [low, high, *(rng.randint(min(low, high), max(low, high)) for _ in range(98))]
    _, edges, counts = shape(values)
    assert sum(counts) == 100 and len(edges) == len(counts) + 1 <= 41
    assert all(a < b for a, b in pairwise(edges))


def test_one_value_has_one_bin() -> None:
    assert shape([5])[1:] == ([5, 6], [1])
