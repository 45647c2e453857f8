"""What is said of many small histories is what was said of them when it was last looked at.

No verdict, finding, certificate, count or refusal changes unnoticed. What they are worth is the
other tests' subject. A change that is meant: `python -m tests.checkers.recorded_verdicts`.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.checkers.recorded_verdicts import RECORDED, groups, line, said

KNOWN = {each.partition(":")[0]: each for each in RECORDED.read_text().splitlines()}
FIRST = 2
"""Histories of each group that `make test` looks at; it looks at all of those that were chosen
because no other told a mutant apart."""
cases_of = cache(groups)


def test_every_group_has_its_line() -> None:
    assert list(KNOWN) == list(cases_of())


@pytest.mark.parametrize("name", KNOWN)
def test_the_same_is_said_of_the_first_of_it(name: str) -> None:
    digests = KNOWN[name].rpartition(": ")[2].split()
    first = [said(one, prop)[1] for prop, one in cases_of()[name][:FIRST]]
    assert first == digests[: len(first)]


@pytest.mark.parametrize(
    "name",
    [
        name if name.startswith("chosen ") else pytest.param(name, marks=pytest.mark.slow)
        for name in KNOWN
    ],
)
def test_the_same_is_said_of_it(name: str) -> None:
    assert line(name, cases_of()[name]) == KNOWN[name]
