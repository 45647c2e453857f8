"""What is said of many small histories is what was said of them when it was last looked at.

No verdict, finding, certificate, count or refusal changes unnoticed. What they are worth is the
other tests' subject. A change that is meant: `python -m tests.checkers.recorded_verdicts`.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.checkers.recorded_verdicts import RECORDED, groups, line

KNOWN = {each.partition(":")[0]: each for each in RECORDED.read_text().splitlines()}
cases_of = cache(groups)


def test_every_group_has_its_line() -> None:
    assert list(KNOWN) == list(cases_of())


@pytest.mark.parametrize("name", KNOWN)
def test_the_same_is_said_of_it(name: str) -> None:
    assert line(name, cases_of()[name]) == KNOWN[name]
