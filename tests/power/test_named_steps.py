"""The step that `explain` names lies in the code of the planted bug, for most planted bugs."""

from __future__ import annotations

import pytest

from holdfast.catalogue.mutants import MUTANTS
from tests.power.named_steps import bug_code, functions, named

LEAST = 54
"""Of 68: 55 when it was set. Not those that keep a wrong value on which a later step acts, unless
it is a time, nor most bugs of clients."""


@pytest.mark.parametrize("name", MUTANTS)
def test_every_planted_bug_has_code_that_can_be_watched(name: str) -> None:
    assert any(functions(kind) for kind in bug_code(name))


@pytest.mark.power
def test_most_named_steps_lie_in_the_bug() -> None:
    rows = [named(name, 60.0) for name in MUTANTS]
    assert sum(row.inside for row in rows) >= LEAST, "\n".join(row.row() for row in rows)
