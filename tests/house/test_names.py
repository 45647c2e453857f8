"""Names that say nothing of what they hold, and names of classes with two meanings: only fewer."""

from __future__ import annotations

import pytest

from tests.house import figures

MOST_ASSIGNED = {"found": 184, "told": 71, "said": 31}
MOST_CLASSES_WITH_TWO_MEANINGS = 120


@pytest.mark.parametrize("name", MOST_ASSIGNED)
def test_variables_are_named_after_what_they_hold(name: str) -> None:
    assert figures.assigned(name) <= MOST_ASSIGNED[name], "name it after its content"


def test_no_more_classes_share_a_name() -> None:
    assert len(figures.shared_class_names()) <= MOST_CLASSES_WITH_TWO_MEANINGS
