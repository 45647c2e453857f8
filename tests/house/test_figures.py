"""The script of figures counts what it says."""

from __future__ import annotations

import ast

from tests.house import figures, guess
from tests.house.imports import ROOT

CLASS_NAMES = 62
"""Names of which several modules have a class each: they may only become fewer."""


def test_class_names_with_two_meanings_only_become_fewer() -> None:
    assert len(figures.shared_class_names()) <= CLASS_NAMES


def test_every_figure_is_printed_once() -> None:
    names = [what for what, _ in figures.figures()]
    assert len(names) == len(set(names)) > 20


def test_a_name_is_counted_where_it_is_read() -> None:
    inside = [*ast.walk(ast.parse("x: Any = getattr(a, 'Any')\ny: list[Any] = []"))]
    assert figures.names(inside, "Any") == 2 and figures.names(inside, "getattr") == 1


def test_a_fault_kind_is_a_whole_string() -> None:
    inside = ast.walk(ast.parse("do = 'kill' if a else 'kills'"))
    assert figures.fault_kinds(inside) == 1


def test_a_sample_of_modules_is_that_of_its_seed() -> None:
    first = guess.sampled(60, 1)
    assert first == guess.sampled(60, 1) != guess.sampled(60, 2)
    assert len({path for path, _ in first}) == 60
    assert all((ROOT / path).is_file() and line.endswith((".", "?")) for path, line in first)
