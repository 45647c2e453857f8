"""`Any` and `getattr` do not come back: a seam has a type, an ability is declared."""

from __future__ import annotations

import pytest

from tests.house.figures import names, parsed

MOST = {"Any": 286, "getattr": 83}
"""As many as there are. Lower a number when you have removed some; never raise it: give the value a
type (docs/decisions/0022-typed-seams.md)."""


@pytest.mark.parametrize("name", MOST)
def test_no_more_uses_than_there_were(name: str) -> None:
    used = {module: names(inside, name) for module, inside in parsed().items()}
    most = sorted(used.items(), key=lambda one: -one[1])[:5]
    assert sum(used.values()) <= MOST[name], f"most: {most}"


@pytest.mark.parametrize("name", MOST)
def test_the_limit_is_what_was_reached(name: str) -> None:
    assert sum(names(inside, name) for inside in parsed().values()) > MOST[name] - 20, (
        "lower the limit"
    )
