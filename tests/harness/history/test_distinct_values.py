"""The different values of a column, compared with numpy's own."""

from __future__ import annotations

import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest

from holdfast.harness.history.distinct_values import distinct, numbered, placed

RNG = np.random.default_rng(3)
COLUMNS: dict[str, npt.NDArray[np.int64]] = {
    "none": np.empty(0, np.int64),
    "one": np.array([7], np.int64),
    "clients from 1 on": 1 + RNG.integers(0, 10, 500),
    "far apart": np.array([5, -(1 << 62), 1 << 62, 5], np.int64),
    "of a narrow type": RNG.integers(0, 1 << 32, 500).astype("u4"),
    "attempts": RNG.integers(1, 9, 500) << 32 | RNG.integers(1, 60, 500),
    "an attempt that no client counts to": np.array([1 << 32 | 3, 1 << 62, 2 << 32 | 1, 0]),
    "attempts of some late ones": (1 << 32) + np.array([1 << 31, (1 << 31) + 1, 1 << 31]),
    "the largest number of a client": np.array([3 << 32 | (1 << 32) - 1, 3 << 32, 9 << 32]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_different_values_are_those_of_numpy(name: str) -> None:
    found = distinct(COLUMNS[name])
    assert found.tolist() == np.unique(COLUMNS[name]).tolist()
    assert found.dtype == COLUMNS[name].dtype


@pytest.mark.parametrize("name", COLUMNS)
def test_first_rows_and_numbers_are_those_of_numpy(name: str) -> None:
    values = COLUMNS[name].astype(np.int64)
    expected = np.unique(values, return_index=True, return_inverse=True)
    for found, of_numpy in zip(numbered(values), expected, strict=True):
        assert found.tolist() == of_numpy.ravel().tolist()


@pytest.mark.parametrize("name", COLUMNS)
def test_places_are_in_the_order_of_the_values(name: str) -> None:
    values = COLUMNS[name].astype(np.int64)
    found, place = placed(values)
    assert found[place].tolist() == values.tolist()
    assert (np.diff(found) > 0).all()


@pytest.mark.parametrize("most", [60, 1 << 33, (1 << 62) - 1])
def test_a_hostile_attempt_costs_no_memory(most: int) -> None:
    values = np.append(COLUMNS["attempts"], most)
    tracemalloc.start()
    numbered(values)
    distinct(values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 * len(values) * 8
