"""What `make test-quick` chooses, and the times by which it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import kept_times, quick
from tests.quick import BUDGET, ROOT, chosen, distances, files, starts


def reached(name: str) -> dict[str, int]:
    return distances(starts([ROOT / name]))


def test_a_test_is_as_near_as_its_imports_say() -> None:
    far = reached("checkers/properties/ownership.py")
    assert far["holdfast.checkers.properties.ownership"] == 0
    assert far["tests.checkers.test_ownership"] == 1
    assert far["holdfast.catalogue"] == 1, "it is an entry of the catalogue, by its name"
    assert far["tests.front.test_api"] > 1


@pytest.mark.parametrize(
    ("changed", "breaks"),
    [
        ("nemesis/kinds/pause.py", "tests/nemesis/test_draw.py"),
        ("harness/properties/token_order.py", "tests/reports/test_story.py"),
        (
            "harness/verification/properties/ownership.py",
            "tests/harness/verification/test_forged.py",
        ),
        ("tests/checkers/conftest.py", "tests/checkers/test_ownership.py"),
        ("tests/checkers/test_ownership.py", "tests/checkers/test_ownership.py"),
        ("tests/checkers/shorthand.py", "tests/checkers/test_siblings.py"),
        ("harness/core/clock.py", "tests/checkers/test_siblings.py"),
    ],
)
def test_what_a_change_can_break_is_reached(changed: str, breaks: str) -> None:
    every, left = chosen([ROOT / changed], budget=float("inf"))
    assert breaks in every and left == 0


def test_what_is_chosen_fits_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "kept", dict)
    monkeypatch.setattr(quick, "UNKNOWN", 1.0)
    every, _ = chosen([ROOT / "harness/core/clock.py"], budget=float("inf"))
    fit, left = chosen([ROOT / "harness/core/clock.py"])
    assert (len(fit), left) == (BUDGET, len(every) - BUDGET)
    far = reached("harness/core/clock.py")
    steps = [far[quick.module_of(ROOT / name)] for name in every]
    assert steps == sorted(steps) and fit == every[: len(fit)]


def test_heavy_files_begin_first_and_unmeasured_ones_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Item:
        def __init__(self, nodeid: str) -> None:
            self.nodeid = nodeid

    monkeypatch.setattr(kept_times, "KEPT", tmp_path / "kept_times.txt")
    kept_times.KEPT.write_text("9 9 1 1 tests/a.py\n1 1 30 0 tests/b.py\n2 2 0 0 tests/c.py\n")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    names = ["b.py::1", "new.py::1", "a.py::1", "a.py::2", "c.py::1", "c.py::2"]
    for share, expected in (
        ("few", ["new.py::1", "a.py::1", "a.py::2", "c.py::1", "c.py::2", "b.py::1"]),
        ("some", ["c.py::1", "c.py::2", "new.py::1", "b.py::1", "a.py::1", "a.py::2"]),
    ):
        monkeypatch.setenv("HOLDFAST_DRAWS", share)
        items: list[Any] = [Item(f"tests/{name}") for name in names]
        kept_times.pytest_collection_modifyitems(items)
        assert [item.nodeid for item in items] == [f"tests/{name}" for name in expected]


def test_every_module_is_found_by_the_name_that_imports_it() -> None:
    assert files()["tests.quick"] == Path(quick.__file__)
    assert files()["holdfast.catalogue"] == ROOT / "src/holdfast/catalogue/__init__.py"


def test_columns_of_times_are_written_and_the_other_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_times, "KEPT", tmp_path / "kept_times.txt")
    kept_times.KEPT.write_text(
        "9.0 9.0 5.0 4.0 tests/test_draws.py\n1.0 1.0 0.0 0.0 tests/test_gone.py\n"
    )
    seconds = {"tests/test_quick.py": 7.04, "tests/test_draws.py": 1.26}
    kept_times.write("test", seconds, {"tests/test_quick.py": 1.97, "tests/test_draws.py": 1.9})
    assert kept_times.KEPT.read_text() == (
        "7.0 2.0 0.0 0.0 tests/test_quick.py\n1.3 1.3 5.0 4.0 tests/test_draws.py\n"
    )
    kept_times.write("test-long", {"tests/test_quick.py": 2.0}, {"tests/test_quick.py": 0.52})
    assert kept_times.kept() == {
        "tests/test_quick.py": (7.0, 2.0, 2.0, 0.5),
        "tests/test_draws.py": (1.3, 1.3, 0.0, 0.0),
    }
