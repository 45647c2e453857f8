"""Command lines of a user's programs: splitting, placeholders, paths of shipped files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

BLANK = re.compile(r"\{([a-z]+)\}")


def split(text: str) -> list[str]:
    """The words of a command line. ValueError if a quote is left open."""
    return shlex.split(text)


def blanks(words: Sequence[str]) -> set[str]:
    """The placeholders: names in braces."""
    return {name for word in words for name in BLANK.findall(word)}


def filled(words: Sequence[str], values: Mapping[str, str], folder: Path | None) -> tuple[str, ...]:
    """The words with every {name} replaced; those that name a file of `folder` become its path."""

    def value(word: str) -> str:
        return BLANK.sub(lambda blank: values.get(blank[1], blank[0]), word)

    filled_words = (value(word) for word in words)
    if folder is None:
        return tuple(filled_words)
    return tuple(
        str(folder / word) if inside(word) and (folder / word).exists() else word
        for word in filled_words
    )


def inside(word: str) -> bool:
    """Whether a word can name a file below its base folder."""
    path = Path(word)
    return bool(word) and word != "." and not path.is_absolute() and ".." not in path.parts


def files(words: Sequence[str], base: Path) -> Iterator[str]:
    """Those of the words that name files below `base`."""
    return (word for word in words if inside(word) and (base / word).is_file())
