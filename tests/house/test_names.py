"""Names that say nothing of what they hold: only fewer. Of classes, `test_figures` counts them."""

from __future__ import annotations

import pytest

from tests.house import figures

MOST_ASSIGNED = {"found": 177, "told": 71, "said": 31}


@pytest.mark.parametrize("name", MOST_ASSIGNED)
def test_variables_are_named_after_what_they_hold(name: str) -> None:
    assert figures.assigned(name) <= MOST_ASSIGNED[name], "name it after its content"
