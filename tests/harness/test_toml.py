"""Texts written as TOML are read again as they were."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable

import pytest

from holdfast.harness.core import toml

SCALARS = [*range(0xD800), *range(0xE000, 0x110000)]


@pytest.mark.parametrize(
    "text", ["\U0001f512", "a\\\U0001f512\\ud83d", 'q"\\', "\x00\x1f\x7f\n\t", "é", ""]
)
def test_a_text_is_read_as_it_was(text: str) -> None:
    told = toml.quoted(text)
    assert told.isascii() and toml.loads(f"x = {told}") == {"x": text}


def test_random_texts_and_arrays_of_them_are_read_as_they_were() -> None:
    rng = random.Random(1)
    for _ in range(300):
        texts = ["".join(map(chr, rng.choices(SCALARS, k=rng.randrange(9)))) for _ in range(3)]
        assert tomllib.loads(f"x = {toml.quoted(texts)}") == {"x": texts}


@pytest.mark.parametrize(
    "nested",
    [
        lambda depth: f"x = {'[' * depth}{']' * depth}",
        lambda depth: f"x = {'{a=' * depth}1{'}' * depth}",
        lambda depth: f"x = {'[{a=' * (depth // 2)}{'[]' * (depth % 2)}{'}]' * (depth // 2)}",
    ],
    ids=["arrays", "tables", "both"],
)
@pytest.mark.parametrize(
    ("depth", "read"), [(toml.DEEPEST - 1, True), (toml.DEEPEST + 1, False), (100_001, False)]
)
def test_values_are_nested_up_to_a_bound(
    nested: Callable[[int], str], depth: int, read: bool
) -> None:
    if read:
        assert list(toml.loads(nested(depth))) == ["x"]
    else:
        with pytest.raises(tomllib.TOMLDecodeError, match="values are nested too deeply"):
            toml.loads(nested(depth))
