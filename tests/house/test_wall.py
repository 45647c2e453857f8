"""The wall: the core imports none of the packages beside it, inside functions neither.

`wall.py` says which modules are the core. `python -m tests.house.figures` prints the numbers.
"""

from __future__ import annotations

import pytest

from holdfast import catalogue
from holdfast.harness.core.loading import load
from tests.house import wall
from tests.house.imports import cycles, modules

LAZY_IMPORTS = 10
"""Imports of the project inside functions, without those of doors."""
WIDEST = 15
"""Most modules that one module of the core imports."""


def test_the_core_imports_nothing_of_what_stands_beside_it() -> None:
    assert wall.arrows() == set(), "the core must not learn of a feature"


def test_imports_inside_functions_and_halls_of_many_doors_only_become_fewer() -> None:
    assert sum(wall.lazy_imports().values()) <= LAZY_IMPORTS
    assert wall.widest()[1] <= WIDEST


def test_no_imports_inside_functions_hide_a_cycle() -> None:
    assert cycles(wall.imported) == []


@pytest.mark.parametrize("kind", catalogue.NEMESES)
def test_a_kind_of_fault_lies_where_its_half_of_the_agent_does(kind: str) -> None:
    """A kind with a half in a package belongs to it; others use what every agent has."""
    nemesis = load(catalogue.NEMESES[kind].entry)
    halves = {wall.package_of(half.partition(":")[0].partition(".")[2]) for half in nemesis.agent}
    mine = wall.package_of(catalogue.NEMESES[kind].entry.partition(":")[0].partition(".")[2])
    assert mine in halves or halves <= {"core"}, "put it into the package, in wall.py"


def test_every_part_of_a_package_exists_and_is_in_one_package() -> None:
    parts = [part for group in wall.PACKAGES.values() for part in group]
    assert len(parts) == len(set(parts))
    for part in (*parts, *wall.DOORS):
        named = [m for m in modules() if m == part or m.startswith(f"{part}.")]
        assert named or part == "starters", part
