"""Over-admissions against every order of the acquires and releases of a small semaphore."""

from __future__ import annotations

import random

import pytest

from holdfast.checkers.properties.over_admission import over_admissions
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Mode, Terms
from holdfast.harness.core.seeds import stream
from tests.checkers.shorthand import case, history, on
from tests.draws import Draws

Act = tuple[int, int, int, int]
"""(called, returned, process, permits taken: negative to give back)"""


def drawn(rng: random.Random) -> tuple[list[Act], int]:
    """Two to five clients that take and give back one or two permits, once each."""
    acts = []
    for process in range(rng.randint(2, 5)):
        taken = rng.randint(1, 2)
        asked, granted, given, free = sorted(rng.sample(range(24), 4))
        acts += [(asked, granted, process, taken), (given, free, process, -taken)]
    return acts, rng.randint(2, 4)


def possible(acts: list[Act], limit: int) -> bool:
    """Whether some order, each act at an instant of its own span, never takes more than all."""

    def place(left: frozenset[Act], taken: int) -> bool:
        for act in left:
            follows = any(other[1] < act[0] for other in left)
            if not follows and taken + act[3] <= limit and place(left - {act}, taken + act[3]):
                return True
        return not left

    return place(frozenset(acts), 0)


def judged(acts: list[Act], limit: int) -> Case:
    """The same as a history of a lock that nothing but a release frees."""
    words = []
    for called, returned, process, taken in acts:
        what = "a" if taken > 0 else "r"
        # Of two at one time the calls come first: they overlap, as `possible` has it.
        words += [(called, 0, f"{process}{what}?@{called}")]
        words += [(returned, 1, f"{process}{what}+@{returned}")]
    told = history(" ".join(word for _, _, word in sorted(words)))
    sizes = [act[3] for act in acts if act[3] > 0]
    terms = [Terms(mode=Mode.PERMITS, permits=n, limit=limit) for n in sizes]
    promises = {"bound": "none", "release_proves": False, "renew_proves": False}
    return case(on(told, *terms), promises=promises, lease_ns=SECOND)


@pytest.mark.parametrize(
    "number", [600, pytest.param(20_000, marks=pytest.mark.power)], ids=["few", "very many"]
)
def test_a_semaphore_is_accused_exactly_where_no_order_explains_it(
    number: int, draws: Draws
) -> None:
    number = draws(number)
    said = {True: 0, False: 0}
    for n in range(number):
        acts, limit = drawn(stream(6, "over-admission", n))
        found = list(over_admissions(judged(acts, limit)))
        expected = possible(acts, limit)
        assert (not found) is expected, (acts, limit, [f.sentence for f in found])
        said[expected] += 1
    assert min(said.values()) >= number // 5, said
