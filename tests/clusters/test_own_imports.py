"""A lock class may import other modules of its repository: they are tested with it, as they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from holdfast.catalogue import user_system
from holdfast.harness.core.loading import neighbours
from tests.clusters.test_own_simulated import LOCK
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
IN_FILES = """
from locks.files import take, drop
import settings

class Files:
    nodes = 0

    def __init__(self, servers, options):
        pass

    def acquire(self, lock, owner, lease_s):
        return take(settings.FOLDER, lock, owner)

    def release(self, lock, owner):
        return drop(settings.FOLDER, lock, owner)
"""
FILES = """
import os

def take(folder, lock, owner):
    try:
        os.close(os.open(f"{folder}/{lock}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def drop(folder, lock, owner):
    os.unlink(f"{folder}/{lock}")
    return True
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock in a file of a repository, with a package and a module beside it."""
    root = tmp_path / "repository"
    (root / "locks").mkdir(parents=True)
    (tmp_path / "held").mkdir(mode=0o777)
    (tmp_path / "held").chmod(0o777)
    (root / "mine.py").write_text(IN_FILES)
    (root / "settings.py").write_text(f"FOLDER = {str(tmp_path / 'held')!r}\n")
    (root / "locks" / "__init__.py").write_text("")
    (root / "locks" / "files.py").write_text(FILES)
    (root / "unrelated.py").write_text("raise RuntimeError\n")
    monkeypatch.chdir(tmp_path)
    return root


def test_only_what_is_imported_comes_along(repository: Path) -> None:
    assert set(neighbours(repository / "mine.py")) == {
        "settings.py", "locks/__init__.py", "locks/files.py",
    }  # fmt: skip


def test_a_module_named_like_one_of_the_standard_library_stays_behind(repository: Path) -> None:
    (repository / "queue.py").write_text("")
    (repository / "mine.py").write_text("import queue, settings\n")
    assert set(neighbours(repository / "mine.py")) == {"settings.py"}


def test_modules_that_import_each_other_are_found_once(repository: Path) -> None:
    (repository / "settings.py").write_text("import mine, locks.files\n")
    assert len(neighbours(repository / "mine.py")) == 3


@pytest.mark.slow
def test_clients_that_are_processes_have_the_modules(capsys: Capture, repository: Path) -> None:
    run = (
        "run",
        "--system",
        "repository/mine.py:Files",
        "--backend",
        "local-proxy",
        "--time",
        "2s",
    )
    said = holdfast(capsys, *run, "--out", "runs", "--seed", "3", "--json")
    told = json.loads(said.out)
    assert told["evidence"]["acquire"]["granted"] > 0, said.err
    assert told["evidence"]["errors"] == []
    kept = Path("runs/latest").resolve() / "own"
    assert (kept / "locks" / "files.py").read_text() == FILES
    # The run can be made again where the repository is gone.
    shutil.rmtree(repository)
    assert holdfast(capsys, "replay", "runs/latest", "--times", "1").code in (0, 1, 3)


def test_the_simulator_takes_the_modules_of_the_file_s_own_folder(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two repositories with a module of the same name, in one process."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("right", LOCK), ("wrong", LOCK.replace("self.last.get(lock, 0) + 1", "1"))):
        Path(name).mkdir()
        Path(name, "inner.py").write_text(text)
        Path(name, "lock.py").write_text("from inner import InMemory\n")
    found = []
    for name in ("right", "wrong", "right"):
        run = ("run", "--backend", "sim", "--system", f"{name}/lock.py:InMemory", "--time", "5s")
        told = json.loads(holdfast(capsys, *run, "--seed", "1", "--json").out)
        rows = {row["property"]: row["verdict"] for row in told["verdicts"]}
        found.append(rows["token-order"])
    assert found[0] == found[2] != "VIOLATED" == found[1]


def test_a_change_of_such_a_module_is_another_system(repository: Path) -> None:
    name = "repository/mine.py:Files"
    before = user_system.identity(name), user_system.fingerprint([name])
    (repository / "locks" / "files.py").write_text(FILES + "# changed\n")
    after = user_system.identity(name), user_system.fingerprint([name])
    assert before[0] != after[0] and before[1] != after[1]
