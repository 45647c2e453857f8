"""Parses options of a nemesis; reports all mistakes at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from holdfast.harness.core.errors import UsageError

SIZE = re.compile(r"([0-9]+)(|KiB|MiB|GiB)")
UNITS = {"": 0, "KiB": 10, "MiB": 20, "GiB": 30}
"""Unit -> the power of 2 that it stands for."""
RATE = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def rate_ppm(text: str) -> int:
    """Parts per million by which a clock with a rate such as "1.5" is fast. Errors: ValueError."""
    if not RATE.fullmatch(text.strip()) or not Fraction(text) or Fraction(text) > 6:
        raise ValueError(
            f"invalid rate {text!r}: expected 0 to 6, such as 1.5 for a clock 50% too fast"
        )
    return int((Fraction(text) - 1) * 1_000_000)


def size_bytes(text: str) -> int:
    """Bytes of a size such as "512KiB". Errors: ValueError."""
    found = SIZE.fullmatch(text.strip())
    if not found:
        raise ValueError(f"invalid size {text!r}: expected bytes, or such as 512KiB or 4MiB")
    return int(found[1]) << UNITS[found[2]]


def read(
    nemesis: str, options: Mapping[str, str], known: Mapping[str, Callable[[str], object]]
) -> None:
    """Checks names and values: `known` maps an option to its parser. Errors: UsageError."""
    problems = []
    for name, text in options.items():
        if name not in known:
            problems.append(f"nemesis {nemesis}: {unknown('option', name, known)}")
            continue
        try:
            known[name](text)
        except (ValueError, UsageError) as error:
            problems.append(f"nemesis {nemesis}: option {name}: {error}")
    if problems:
        raise UsageError(*problems)


def one_of(*words: str) -> Callable[[str], str]:
    """A parser of one of these words. Its errors: ValueError with a suggestion."""

    def reader(text: str) -> str:
        if text not in words:
            raise ValueError(unknown("value", text, words))
        return text

    return reader


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Error text for an unknown name: known names and a suggestion."""
    known = list(known)
    close = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"unknown {what} {name!r}{hint} (known: {', '.join(known)})"
