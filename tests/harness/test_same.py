"""Two histories are compared row by row, by what the rows mean."""

from __future__ import annotations

import numpy as np

from holdfast.harness.core.case import MERGED_DTYPE, History
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history.diff import first_difference


def history(*rows: tuple[int, Op, str], strings: tuple[str, ...] = ("", "a", "b")) -> History:
    """Rows of (t_inv, op, lock), each answered OK 5 ns later."""
    table = np.zeros(len(rows), MERGED_DTYPE)
    for n, (t_ns, op, lock) in enumerate(rows):
        table[n]["t_inv"], table[n]["t_ret"], table[n]["f"] = t_ns, t_ns + 5, op
        table[n]["key"], table[n]["status"], table[n]["row"] = strings.index(lock), Status.OK, n
    return History(rows=table, strings=strings, writers=("c1",))


def test_how_strings_are_numbered_makes_no_difference() -> None:
    one = history((1, Op.TRY, "a"), (9, Op.RELEASE, "b"))
    other = history((1, Op.TRY, "a"), (9, Op.RELEASE, "b"), strings=("", "b", "a"))
    assert first_difference(one, other) == ""


def test_the_first_row_that_differs_is_named() -> None:
    one = history((1, Op.TRY, "a"), (9, Op.RELEASE, "a"), (20, Op.TRY, "a"))
    other = history((1, Op.TRY, "a"), (9, Op.RELEASE, "b"), (20, Op.TRY, "b"))
    said = first_difference(one, other)
    assert "row 1 of c1: release a at 9 ns, OK" in said
    assert "against row 1 of c1: release b at 9 ns" in said


def test_a_row_that_is_missing_is_a_difference() -> None:
    one = history((1, Op.TRY, "a"), (9, Op.RELEASE, "a"))
    said = first_difference(one, history((1, Op.TRY, "a")))
    assert said.endswith("against no such row") and "row 1 of c1" in said
