"""The bound of the promise that the fewest runs had an opportunity of, in words."""

from __future__ import annotations

from holdfast.harness.core.statistics import none_in
from holdfast.reports.text.formatting import count, percent, plain


def least_tried(prop: str, fault: str, runs: int) -> str:
    """Words that follow the bound of all runs. runs: those with an opportunity of each row."""
    name = f"{plain(prop.replace('-', ' '), 60)} under {plain(fault, 60)}"
    return f"; {name} below {percent(none_in(runs))}, with {count(runs, 'run')} that could show it"
