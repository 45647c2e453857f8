"""Parses and formats durations such as "300ms", "5s", "8h"; internally integer nanoseconds."""

from __future__ import annotations

import re

from holdfast.harness.core.errors import UsageError

UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_SPAN = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h)")


def duration_ns(text: str) -> int:
    """Nanoseconds of a duration such as "1.5s"; UsageError for others, also a bare number."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"invalid duration {text!r}: expected a number with a unit, like 300ms, 5s, 2m or 8h"
        )
    return round(float(match[1]) * UNITS_NS[match[2]])


def positive_ns(text: str) -> int:
    """The same for a duration that must not be 0."""
    span_ns = duration_ns(text)
    if span_ns <= 0:
        raise UsageError(f"invalid duration {text!r}: expected > 0")
    return span_ns


def duration_text(span_ns: int) -> str:
    """The shortest exact text of a duration: 1500000000 -> "1500ms"."""
    for unit in ("s", "ms", "us"):
        if span_ns % UNITS_NS[unit] == 0:
            return f"{span_ns // UNITS_NS[unit]}{unit}"
    return f"{span_ns}ns"
