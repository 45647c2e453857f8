"""Rows by column read like a structured array of the same rows."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.harness.core.case import MERGED_DTYPE, Columns, among, by_column, room, stacked
from holdfast.harness.core.operations import Op

NAMES = MERGED_DTYPE.names or ()


def drawn(count: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = np.zeros(count, MERGED_DTYPE)
    for name in NAMES:
        rows[name] = rng.integers(0, 100, count)
    return rows


def columns(rows: np.ndarray) -> Columns:
    return by_column(rows.copy())


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_every_selection_is_that_of_a_structured_array(count: int) -> None:
    rows = drawn(count)
    found = columns(rows)
    few = np.arange(count)[::-2]
    chosen = [rows["f"] > 50, few, few.tolist(), slice(1, 9), slice(None, None, -1)]
    for each in chosen:
        if isinstance(each, list) and not each:
            continue
        part, expected = found[each], rows[each]
        assert len(part) == len(expected)
        assert part.tolist() == expected.tolist()
        again = slice(0, None, 2)
        assert part[again].tolist() == expected[again].tolist()
        assert np.asarray(part).dtype == MERGED_DTYPE
    assert [row.tolist() for row in found] == [row.tolist() for row in rows]
    assert found[["writer", "row"]].tolist() == rows[["writer", "row"]].tolist()


def test_a_row_has_the_numbers_of_its_columns_with_their_types() -> None:
    rows = drawn(5)
    found = columns(rows)
    for at in (0, 4, -1, np.int64(2)):
        assert found[at].tolist() == rows[at].tolist()
        assert all(type(found[at][name]) is type(rows[at][name]) for name in NAMES)
    for outside in (5, -6):
        with pytest.raises(IndexError):
            found[outside]
    with pytest.raises(KeyError):
        found["no column"]


def test_a_slice_shares_its_numbers_and_a_copy_or_selection_does_not() -> None:
    rows = columns(drawn(6))
    before = rows["token"].tolist()
    rows.copy()["token"] = 7
    rows[np.array([0, 1])]["token"] = 7
    assert rows["token"].tolist() == before
    rows[2:4]["token"] = 7
    rows[5]["token"] = 8
    assert rows["token"].tolist() == [*before[:2], 7, 7, before[4], 8]


def test_rows_are_put_in_place_stacked_and_sorted() -> None:
    one, two = drawn(4, 2), drawn(3, 3)
    both = np.concatenate((one, two))
    order = np.argsort(both["t_inv"], kind="stable")
    assert stacked(MERGED_DTYPE, [columns(one), columns(two)]).tolist() == both.tolist()
    space = room(MERGED_DTYPE, 9)
    space[0:4].fill(columns(one))
    space[4:7].fill(columns(two))
    assert space.shortened(7).sorted_by(order).tolist() == both[order].tolist()


def test_rows_of_some_kinds_are_found_in_columns_of_any_layout() -> None:
    kinds = np.arange(256).astype("u1")
    for column in (kinds, kinds.astype("i1"), np.repeat(kinds, 3)[::3], kinds[:0]):
        assert among(column, (Op.ACQUIRE, Op.LOST)).tolist() == np.isin(column, [1, 6]).tolist()
    assert not among(kinds, ()).any()
