"""What tests leave: nothing of those that passed, nothing large of those that failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest

@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    sparse(folder / "large")
    return folder

def sparse(path, size=1 << 40):
    with path.open("wb") as file:
        file.write(b"begins")
        file.truncate(size)

@pytest.mark.parametrize("fails", [False, True])
def test_with_a_large_file(tmp_path, fails):
    sparse(tmp_path / "large")
    sparse(tmp_path / "small", 1 << 20)
    assert not fails

def test_with_a_folder_of_all(shared):
    assert (shared / "large").exists()

def test_that_finds_it_still_there(shared):
    assert (shared / "large").exists()
"""


@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["alone", "together"])
def test_nothing_of_a_passed_test_stays_and_nothing_large_of_a_failed_one(
    tmp_path: Path, processes: list[str]
) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    kept = tmp_path / "temporary"
    kept.mkdir()
    words = ["-p", "tests.left_behind", "-c", str(ROOT / "pyproject.toml"), "-q", *processes]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(tmp_path / "test_some.py")],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(kept)},
    )  # fmt: skip
    assert done.returncode == 1 and "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "removed, holes only: large" in done.stdout
    files = [file for file in kept.rglob("*") if file.is_file() and not file.is_symlink()]
    left = [file for file in files if not file.name.startswith(".")]
    assert [(file.name, file.parent.name) for file in left] == [
        ("small", "test_with_a_large_file_True_0")
    ]
