"""Options of a nemesis as people write them, read with every mistake named at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from holdfast.harness.core.errors import UsageError

RATE = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def rate_ppm(text: str) -> int:
    """Parts per million by which a clock of rate "1.5" is fast. Errors: ValueError."""
    if not RATE.fullmatch(text.strip()) or not Fraction(text) or Fraction(text) > 6:
        raise ValueError(f"{text!r} is no rate; write 1.5 for a clock half as fast again (0 to 6)")
    return int((Fraction(text) - 1) * 1_000_000)


def read(
    nemesis: str, options: Mapping[str, str], known: Mapping[str, Callable[[str], object]]
) -> None:
    """Checks names and values: `known` maps an option to what reads it. Errors: UsageError."""
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
    """Reads one of these words. The reader's errors: ValueError with a suggestion."""

    def reader(text: str) -> str:
        if text not in words:
            raise ValueError(unknown("value", text, words))
        return text

    return reader


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Says that a name is not known, which are, and which one was perhaps meant."""
    known = list(known)
    close = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"unknown {what} {name!r}{hint} (known: {', '.join(known)})"
