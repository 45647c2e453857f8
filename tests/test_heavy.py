"""The list of tests that `make test` leaves to `make test-long`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import heavy, kept_times
from tests.kept_times import ROOT


def test_each_name_is_that_of_a_test() -> None:
    for name in heavy.kept():
        file, _, test = name.partition("::")
        function = test.partition("[")[0].rpartition("::")[2]
        assert re.search(rf"def {function}\(", (ROOT / file).read_text()), name


def test_a_test_comes_and_goes_by_what_it_takes() -> None:
    file = "tests/test_heavy.py"
    before = {f"{file}::a": 1.0, f"{file}::b": 1.0, f"{file}::c": 1.0, "tests/gone.py::x": 9.0}
    before["tests/house/test_words.py::a"] = 9.0
    measured = {f"{file}::a": 0.1, f"{file}::b": 0.6, f"{file}::d": 2.0, f"{file}::e": 0.5}
    assert list(heavy.merged(before, measured, adds=True)) == [f"{file}::{name}" for name in "dcb"]
    assert list(heavy.merged(before, measured, adds=False)) == [f"{file}::{name}" for name in "cb"]


def test_no_check_of_the_sources_is_left_out_by_lint() -> None:
    assert not [name for name in heavy.kept() if name.startswith(heavy.LINT)]


class Reports:
    """Collects the report of each test."""

    def __init__(self) -> None:
        self.made: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.made.append(report)


def test_a_test_on_the_list_is_slow_and_its_time_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heavy, "KEPT", tmp_path / "list.txt")
    heavy.KEPT.write_text("1.5 test_listed.py::test_one[a b]\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (tmp_path / "test_listed.py").write_text(
        "import pytest\n@pytest.mark.parametrize('word', ['a b', 'c'])\ndef test_one(word): pass\n"
    )
    reports = Reports()
    code = pytest.main(
        ["-q", "-p", "no:cacheprovider", "-m", "not slow", f"--rootdir={tmp_path}", str(tmp_path)],
        plugins=[kept_times, heavy, reports],
    )
    assert code == 0
    (report,) = reports.made
    assert report.nodeid == "test_listed.py::test_one[c]"
    ((name, seconds),) = report.user_properties
    assert name == kept_times.CPU and isinstance(seconds, float) and 0 <= seconds < 60
