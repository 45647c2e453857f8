"""Tests that take long, kept by name in `heavy.txt` with their seconds of CPU: they count as slow.

`make test` leaves them to `make test-long`, so that whoever tries it waits for minutes only. What a
test takes includes what its child processes take. A run that keeps times (`kept_times.py`) writes
the list again: of `make test` what takes more than LIMIT is added; of both what takes less than
half of it is removed, and what did not run stays. Those of `tests/house` are never on it: `make
lint` runs them before each commit, and what it leaves out is seen only by CI.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import kept_times

KEPT = Path(__file__).with_suffix(".txt")
LIMIT = 0.6
"""Seconds of CPU."""
LINT = "tests/house/"
"""The folder of tests that `make lint` runs, whatever they take."""
_seconds: dict[str, float] = {}


def kept() -> dict[str, float]:
    """Name of a test -> its seconds of CPU."""
    rows = [line.partition(" ") for line in KEPT.read_text().splitlines()]
    return {name: float(seconds) for seconds, _, name in rows}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before marks choose which tests run."""
    heavy = kept()
    for item in items:
        if item.nodeid in heavy:
            item.add_marker("slow")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keeps it where the list is written."""
    taken = kept_times.cpu_of(report)
    if taken is not None:
        _seconds[report.nodeid] = taken


def pytest_sessionfinish() -> None:
    """Writes the list, if it is asked for."""
    run = os.environ.get(kept_times.VARIABLE)
    if run and "PYTEST_XDIST_WORKER" not in os.environ:
        rows = merged(kept(), _seconds, adds=run == "test")
        KEPT.write_text("".join(f"{seconds:.1f} {name}\n" for name, seconds in rows.items()))


def merged(
    before: Mapping[str, float], measured: Mapping[str, float], *, adds: bool
) -> dict[str, float]:
    """The list after a run, heaviest first. adds: whether tests that are not on it may come."""
    rows = dict(before)
    for name, seconds in measured.items():
        if seconds > (LIMIT / 2 if name in rows else LIMIT) and (adds or name in rows):
            rows[name] = seconds
        else:
            rows.pop(name, None)
    files = {name: name.partition("::")[0] for name in rows if not name.startswith(LINT)}
    there = {name for name, file in files.items() if (kept_times.ROOT / file).is_file()}
    return dict(sorted(((n, rows[n]) for n in there), key=lambda row: (-row[1], row[0])))
