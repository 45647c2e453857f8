"""Each package beside the core says in its folder what it is, and what others may use of it."""

from __future__ import annotations

import pytest

from tests.house.package_readmes import MOST_LINES, readmes, written


@pytest.mark.parametrize("package", readmes())
def test_a_package_says_what_it_is_and_what_is_used_of_it(package: str) -> None:
    path = readmes()[package]
    text = path.read_text()
    assert text == written(package, path), "python -m tests.house.package_readmes"
    lines = text.splitlines()
    assert len(lines) <= MOST_LINES
    assert lines[0].startswith("# ") and lines[2], "a title, and a sentence about it"
