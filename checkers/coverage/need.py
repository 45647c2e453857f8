"""What a property needs of a run: a need, and how often it was met."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.harness.core.case import Case

Met = tuple[dict[str, int], list[str]]
"""Counts by name, and the reasons why they do not suffice."""
Need = tuple[str, Callable[[Case], Met]]
"""What it requires of a run, and the function that counts it."""


def count(n: int, word: str) -> str:
    """A number and what is counted."""
    return f"{n} {word}" if n == 1 else f"{n} {word}s"
