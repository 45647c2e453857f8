"""How long the files of tests took when that was last measured, kept in `kept_times.txt`.

Where several processes share the tests, heavy files begin first, so that at the end no process
waits for another; `tests/quick.py` chooses by them what fits into its time. Under
HOLDFAST_KEEP_TIMES=test (or test-long) a run of those writes its column again:

    HOLDFAST_KEEP_TIMES=test make test
"""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests import draws

ROOT = Path(__file__).resolve().parents[1]
KEPT = Path(__file__).with_suffix(".txt")
VARIABLE = "HOLDFAST_KEEP_TIMES"
RUNS = ("test", "test-long")
"""The columns: seconds in each of these targets of make."""
_seconds: dict[str, float] = defaultdict(float)


def kept() -> dict[str, tuple[float, float]]:
    """File of tests -> its seconds in each of RUNS; one that is new is not there."""
    rows = [line.split() for line in KEPT.read_text().splitlines()]
    return {name: (float(short), float(long)) for short, long, name in rows}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a process of several: heavy files first, after those that were never measured, of which
    those with many tests come first. The order within a file stays."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    column = RUNS.index("test-long" if os.environ.get(draws.VARIABLE) == "some" else "test")
    seconds = {name: row[column] for name, row in kept().items() if row[column]}
    files = [item.nodeid.partition("::")[0] for item in items]
    tests = Counter(files)
    order = sorted(tests, key=lambda name: (-seconds.get(name, math.inf), -tests[name], name))
    rank = {name: n for n, name in enumerate(order)}
    items.sort(key=lambda item: rank[item.nodeid.partition("::")[0]])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Adds what one step of a test took, in whatever process."""
    _seconds[report.nodeid.partition("::")[0]] += report.duration


@pytest.hookimpl
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the column of this run, if it is asked for; files that are gone are left out."""
    run = os.environ.get(VARIABLE)
    if run and "PYTEST_XDIST_WORKER" not in os.environ:
        write(RUNS.index(run), _seconds)


def write(column: int, measured: dict[str, float]) -> None:
    """Puts a column in place of the kept one, heaviest files first."""
    rows = {name: list(seconds) for name, seconds in kept().items()}
    for row in rows.values():
        row[column] = 0.0
    for name, seconds in measured.items():
        rows.setdefault(name, [0.0, 0.0])[column] = round(seconds, 1)
    there = {name: row for name, row in rows.items() if (ROOT / name).is_file() and any(row)}
    ordered = sorted(there.items(), key=lambda item: (-sum(item[1]), item[0]))
    KEPT.write_text("".join(f"{short} {long} {name}\n" for name, (short, long) in ordered))
