"""Every property is violated exactly where the exact model is that implies it, and vice versa."""

from __future__ import annotations

import pytest

from tests.checkers.exact_models import PAIRS, compare
from tests.draws import Draws

FEW, MANY = 600, 100_000


@pytest.mark.parametrize(
    "number", [FEW, pytest.param(MANY, marks=pytest.mark.power)], ids=["few", "very many"]
)
@pytest.mark.parametrize("name", PAIRS)
def test_a_property_is_violated_exactly_where_its_model_is(
    name: str, number: int, draws: Draws
) -> None:
    number = draws(number)
    seen = compare(name, number, "suite")
    assert min(seen["violated"], seen["holds"]) >= 0.1 * number, seen
