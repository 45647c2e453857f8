"""The script of figures counts what it says."""

from __future__ import annotations

import ast

from tests.house import figures


def test_every_figure_is_printed_once() -> None:
    names = [what for what, _ in figures.figures()]
    assert len(names) == len(set(names)) > 20


def test_a_name_is_counted_where_it_is_read() -> None:
    tree = ast.parse("x: Any = getattr(a, 'Any')\ny: list[Any] = []")
    assert figures.names(tree, "Any") == 2 and figures.names(tree, "getattr") == 1


def test_a_fault_kind_is_a_whole_string() -> None:
    assert figures.fault_kinds(ast.parse("do = 'kill' if a else 'kills'")) == 1
