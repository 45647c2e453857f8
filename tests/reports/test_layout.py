"""Columns of text: rows that fit are aligned, a row that does not becomes a block of its own."""

from __future__ import annotations

from holdfast.reports.text.layout import LEAST_LAST, aligned

SHORT = ("yes", "redis", "a lock on one server")
LONG = ("yes", "a-name-that-leaves-no-room", "what it is")


def test_a_long_name_takes_the_room_of_its_own_row_only() -> None:
    columns = len("yes  a-name  ") + LEAST_LAST
    assert aligned([SHORT, LONG, ("no", "etcd", "-")], columns) == [
        "yes  redis  a lock on one server",
        "yes  a-name-that-leaves-no-room",
        "  what it is",
        "no   etcd   -",
    ]


def test_without_a_width_all_rows_are_aligned() -> None:
    first, second = aligned([SHORT, LONG], 0)
    assert first.index("a lock") == second.index("what it is")


def test_rows_that_all_leave_too_little_become_blocks() -> None:
    assert aligned([SHORT], LEAST_LAST) == ["yes  redis", "  a lock on one server"]
    assert aligned([], 80) == []


def test_without_a_width_the_widest_cells_may_be_those_of_different_rows() -> None:
    assert aligned([("workload", "4", "x"), ("to", "a long value", "y")], 0) == [
        "workload  4             x",
        "to        a long value  y",
    ]
