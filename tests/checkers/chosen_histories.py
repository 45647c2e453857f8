"""Histories by short names, of many kinds: what `tests/power/choose_histories.py` chooses from.

A name is a kind and a number: "grid 17" is the same history on every machine, as long as the
generators stay as they are. `chosen_histories.txt` has the names of those that told a mutant of a
checker or of the verifier from the code as it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from holdfast import catalogue
from holdfast.harness.core.case import Case
from tests.checkers.busy_histories import busy
from tests.checkers.neighbours import (
    CHANGES,
    left_out,
    moved,
    neighbours,
    promising,
    renamed,
    tied,
    unanswered,
)  # fmt: skip
from tests.checkers.small_histories import small
from tests.checkers.test_grid import GRID, asked_first, disturbed, on_the_grid, variants
from tests.checkers.test_near_misses import later, of_rules_drawn_from, specimens
from tests.checkers.test_two_parts import Both

CHOSEN = Path(__file__).with_name("chosen_histories.txt")
PROPERTIES = tuple(catalogue.CHECKERS)[:20]
"""Those that there were when histories were chosen: one more would change all of them."""


@cache
def violations() -> tuple[tuple[str, Case], ...]:
    """(property, a history with a violation of it): of most rules, and of a few ops."""
    return (*of_rules_drawn_from(), *specimens())


def _on_grid(prop: str, one: Case, chance: random.Random) -> Case:
    return next(variants(one, chance, 1, 6), one)


def _next_to(prop: str, one: Case, chance: random.Random) -> Case:
    return next(neighbours(one, chance, 1))


def _far_from(prop: str, one: Case, chance: random.Random) -> Case:
    """A few changes of any kind, one after the other."""
    for change in (*chance.choices(CHANGES, k=chance.choice((3, 5, 8))), promising):
        near = change(one, chance)
        if near is not None and len(near.history.rows) and not tied(near):
            one = near
    return one


def _two(prop: str, one: Case, chance: random.Random) -> Case:
    """A history and a neighbour of it on other locks, in one run."""
    one, near = next(variants(one, chance, 1), one), None
    while near is None or not len(near.history.rows):
        near = chance.choice((moved, renamed, unanswered, left_out))(one, chance)
    return Both(one, near, chance.choice((-1, 0, 1, 5)) * GRID).whole


def _small(prop: str, one: Case, chance: random.Random) -> Case:
    return later(small(chance))


def _busy(prop: str, one: Case, chance: random.Random) -> Case:
    return later(busy(chance))


def _disturbed(prop: str, one: Case, chance: random.Random) -> Case:
    """Of a few clients who do everything, on the grid, with further faults."""
    one = later(busy(chance))
    for _ in range(chance.choice((1, 2, 3))):
        one = disturbed(one, chance)
    near = on_the_grid(one)
    return near if near is not None and asked_first(near.history.rows) else one


KINDS: Mapping[str, Callable[[str, Case, random.Random], Case]] = {
    "grid": _on_grid,
    "next": _next_to,
    "far": _far_from,
    "two": _two,
    "small": _small,
    "busy": _busy,
    "disturbed": _disturbed,
}


def history_of(name: str) -> tuple[str, Case]:
    """The history of a name, and the property about which the verifier is told falsehoods."""
    chance = random.Random(f"chosen {name}")
    prop, one = chance.choice(violations())
    if chance.random() < 0.2:
        prop = chance.choice(PROPERTIES)
    return prop, KINDS[name.split(" ")[0]](prop, one, chance)


def names(count: int) -> Iterator[str]:
    """So many of each kind."""
    return (f"{kind} {n}" for n in range(count) for kind in KINDS)


def chosen() -> list[str]:
    """The names of those that were chosen."""
    return CHOSEN.read_text().split("\n")[:-1]
