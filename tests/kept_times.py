"""How long the files of tests took when that was last measured, kept in `kept_times.txt`.

A row is a file's seconds in `make test` and those of them that were CPU, and the same of `make
test-long`; containers' CPU is the engine's. Where several processes share the tests, heavy files
begin first, so that at the end no process waits for another (`tests/shared_out.py`);
`tests/quick.py` chooses by them what fits into its time. Under HOLDFAST_KEEP_TIMES=test (or
test-long) a run of those writes its columns again:

    HOLDFAST_KEEP_TIMES=test make test
"""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import draws

ROOT = Path(__file__).resolve().parents[1]
KEPT = Path(__file__).with_suffix(".txt")
VARIABLE = "HOLDFAST_KEEP_TIMES"
RUNS = ("test", "test-long")
CPU = "cpu"
"""Under this name the report of a test has its seconds of CPU, children included."""
_began = pytest.StashKey[float]()
_seconds: dict[str, float] = defaultdict(float)
_cpu: dict[str, float] = defaultdict(float)


class Times(NamedTuple):
    """Seconds of a file of tests, 0 where it was not measured."""

    test: float
    test_cpu: float
    test_long: float
    test_long_cpu: float

    def column(self, *, long: bool) -> tuple[float, float]:
        """Seconds, and seconds of CPU, in `make test-long` or in `make test`."""
        return self[2:] if long else self[:2]

    @property
    def total(self) -> float:
        return self.test + self.test_long


NEVER = Times(0.0, 0.0, 0.0, 0.0)


def kept() -> dict[str, Times]:
    """File of tests -> what it took; one that is new is not there."""
    rows = [line.split() for line in KEPT.read_text().splitlines()]
    return {name: Times(*map(float, numbers)) for *numbers, name in rows}


def long_run() -> bool:
    """Whether these tests are those of `make test-long`."""
    return os.environ.get(draws.VARIABLE) == "some"


def used() -> float:
    """Seconds of CPU of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a process of several: heavy files first, after those that were never measured, of which
    those with many tests come first. The order within a file stays."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    times = {name: row.column(long=long_run())[0] for name, row in kept().items()}
    seconds = {name: taken for name, taken in times.items() if taken}
    files = [item.nodeid.partition("::")[0] for item in items]
    tests = Counter(files)
    order = sorted(tests, key=lambda name: (-seconds.get(name, math.inf), -tests[name], name))
    rank = {name: n for n, name in enumerate(order)}
    items.sort(key=lambda item: rank[item.nodeid.partition("::")[0]])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Notes when a test begins. Its fixtures do not count: without it the next one needs them."""
    item.stash[_began] = used()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With the report of a test goes what it took, from whatever process it ran in."""
    report = yield
    if call.when == "call" and _began in item.stash:
        report.user_properties.append((CPU, used() - item.stash[_began]))
    return report


def cpu_of(report: pytest.TestReport) -> float | None:
    """Seconds of CPU of a test; None of its set-up and its end."""
    taken = dict(report.user_properties).get(CPU)
    return taken if isinstance(taken, float) else None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Adds what one step of a test took, in whatever process."""
    name = report.nodeid.partition("::")[0]
    _seconds[name] += report.duration
    _cpu[name] += cpu_of(report) or 0.0


@pytest.hookimpl
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the columns of this run, if it is asked for; files that are gone are left out."""
    run = os.environ.get(VARIABLE)
    if run and "PYTEST_XDIST_WORKER" not in os.environ:
        write(run, _seconds, _cpu)


def write(run: str, seconds: Mapping[str, float], cpu: Mapping[str, float]) -> None:
    """Puts the columns of a run in place of the kept ones, heaviest files first."""
    rows = dict(kept())
    for name in {*rows, *seconds}:
        row, taken = rows.get(name, NEVER), round(seconds.get(name, 0.0), 1)
        used_up = round(min(cpu.get(name, 0.0), taken), 1)
        if run == RUNS[0]:
            rows[name] = row._replace(test=taken, test_cpu=used_up)
        else:
            rows[name] = row._replace(test_long=taken, test_long_cpu=used_up)
    there = {name: row for name, row in rows.items() if (ROOT / name).is_file() and row.total}
    ordered = sorted(there.items(), key=lambda item: (-item[1].total, item[0]))
    KEPT.write_text("".join(f"{' '.join(map(str, row))} {name}\n" for name, row in ordered))
