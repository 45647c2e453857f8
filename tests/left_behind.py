"""What tests leave in their temporary folder.

Of a test that passed: nothing. Of one that failed: its folder, without files that are much larger
than the space they take. A copy or an archive of the folder would fill a disk with their zeros.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

MOST_HOLLOW = 100 << 20
"""Bytes that are holes in the files of a folder that stays, at most."""
_kept: set[Path] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remembers the folders of a test that failed."""
    report = yield
    if report.failed:
        _kept.update(_folders_of(item))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """After all that the test has started is gone. What others use too is left to the end."""
    own = (getattr(item, "funcargs", None) or {}).get("tmp_path")
    try:
        return (yield)
    finally:
        if own in _kept:
            removed = without_holes(own)
            if removed:
                names = ", ".join(file.name for file in removed)
                item.add_report_section("teardown", "left behind", f"removed, holes only: {names}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Removes what fixtures of whole modules made. Those of another process are its own matter."""
    factory: pytest.TempPathFactory | None = getattr(session.config, "_tmp_path_factory", None)
    if factory is None or session.config.getoption("numprocesses", None):
        return
    base = factory.getbasetemp()
    for entry in base.iterdir() if base.is_dir() else ():
        if entry.is_dir() and not entry.is_symlink() and not _holds_kept(entry):
            shutil.rmtree(entry, ignore_errors=True)
    without_holes(base)


def without_holes(folder: Path) -> list[Path]:
    """Removes the files with the largest holes, until those of others are MOST_HOLLOW in all."""
    holes = sorted(_holes(folder))
    excess = sum(size for size, _ in holes) - MOST_HOLLOW
    removed = []
    while excess > 0:
        size, file = holes.pop()
        file.unlink(missing_ok=True)
        removed.append(file)
        excess -= size
    return removed


def _holes(folder: Path) -> Iterator[tuple[int, Path]]:
    """Bytes of each file below a folder that take no space. Those that vanish are left out."""
    for parent, _, names in os.walk(folder):
        for file in (Path(parent, name) for name in names):
            try:
                stat = file.lstat()
            except OSError:
                continue
            hole = stat.st_size - stat.st_blocks * 512
            if hole > 0:
                yield hole, file


def _folders_of(item: pytest.Item) -> list[Path]:
    """Temporary folders that a test was given by its fixtures."""
    factory: pytest.TempPathFactory = item.config._tmp_path_factory  # type: ignore[attr-defined]
    given = (getattr(item, "funcargs", None) or {}).values()
    folders = [value for value in given if isinstance(value, Path) and value.is_dir()]
    return [folder for folder in folders if folder.is_relative_to(factory.getbasetemp())]


def _holds_kept(folder: Path) -> bool:
    return any(kept.is_relative_to(folder) for kept in _kept)
