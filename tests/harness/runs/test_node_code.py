"""The code that nodes import: what is in its zip, and what they need not compile again."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import pytest

import holdfast
from holdfast.harness.properties import PROPERTIES
from holdfast.harness.runs import node_code
from holdfast.harness.runs.node_code import TRAVELS

CORE = "harness/core/part.py"


@pytest.fixture(autouse=True)
def python_writes_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def package_with(folder: Path, text: str) -> Path:
    """A package with one module that every process of a run imports as it starts."""
    package = folder / "holdfast"
    for name in ("__init__.py", "harness/__init__.py", "harness/core/__init__.py", CORE):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text if name == CORE else "")
    return package


def printed_by(archive: Path) -> str:
    """What a node prints that imports the module."""
    words = [sys.executable, "-S", "-P", "-c", "import holdfast.harness.core.part"]
    env = {"PYTHONPATH": str(archive)}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout


def rewritten(archive: Path, name: str, content: bytes) -> Path:
    """The archive with another content of one file."""
    target = archive.with_name("rewritten.zip")
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(target, "w") as new:
        for one in old.infolist():
            new.writestr(one, content if one.filename == name else old.read(one))
    return target


def test_a_node_imports_the_packed_code_and_nothing_else_is_in_it(tmp_path: Path) -> None:
    package, own = tmp_path / "holdfast", tmp_path / "own"
    kept = [f"{room}/{part}" for room in TRAVELS for part in ("__init__.py", "b.py", "in/c.py")]
    left = ["checkers/a.py", "harness/readme.md", "harness/data.pyc", "top.py"]
    for name in (*kept, *left, "__init__.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(f"NAME = {name!r}\n")
    for name in ("mine.py", "more/yours.py", "notes.txt"):
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text(f"NAME = {name!r}\n")
    node_code.pack(package, tmp_path / "alone.zip")
    node_code.pack(package, tmp_path / "code.zip", own)
    names = zipfile.ZipFile(tmp_path / "alone.zip").namelist()
    sources = [name for name in names if name.endswith(".py")]
    assert sorted(sources) == sorted(f"holdfast/{name}" for name in ("__init__.py", *kept))
    # The others are the bytecode of some, made of them and not what lay there.
    assert {name.removesuffix("c") for name in names} == set(sources)
    assert zipfile.ZipFile(tmp_path / "code.zip").namelist() == [
        *names, "mine.py", "more/yours.py",
    ]  # fmt: skip
    code = "import mine, holdfast.harness.b as b; print(mine.NAME, b.NAME)"
    said = subprocess.run(
        [sys.executable, "-S", "-P", "-c", code], env={"PYTHONPATH": str(tmp_path / "code.zip")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "mine.py harness/b.py\n"


def test_a_room_that_is_a_link_is_packed_too(tmp_path: Path) -> None:
    """In a checkout the rooms of the package are links to the folders beside `src`."""
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "a.py").touch()
    package = tmp_path / "holdfast"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / TRAVELS[0]).symlink_to(tmp_path / "room")
    node_code.pack(package, tmp_path / "code.zip")
    assert zipfile.ZipFile(tmp_path / "code.zip").namelist() == [
        "holdfast/__init__.py", f"holdfast/{TRAVELS[0]}/a.py",
    ]  # fmt: skip


def test_a_node_finds_every_property_in_the_packed_code(tmp_path: Path) -> None:
    """They are found by listing their folder, which there is one of the zip."""
    node_code.pack(Path(holdfast.__file__).parent, tmp_path / "code.zip")
    code = "from holdfast.harness.properties import PROPERTIES; print(*PROPERTIES)"
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", code], env={"PYTHONPATH": str(tmp_path / "code.zip")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == list(PROPERTIES)


def test_what_starts_with_a_node_is_not_compiled_by_it(tmp_path: Path) -> None:
    package, archive = package_with(tmp_path, "print('first')\n"), tmp_path / "code.zip"
    node_code.pack(package, archive)
    assert printed_by(archive) == "first\n"
    # Python would compile this and fail; it does not look at it.
    assert printed_by(rewritten(archive, f"holdfast/{CORE}", b"(")) == "first\n"


def test_another_python_compiles_the_source(tmp_path: Path) -> None:
    package, archive = package_with(tmp_path, "print('source')\n"), tmp_path / "code.zip"
    node_code.pack(package, archive)
    bytecode = zipfile.ZipFile(archive).read(f"holdfast/{CORE}c")
    other = b"\0" * len(MAGIC_NUMBER) + bytecode[len(MAGIC_NUMBER) :]
    assert printed_by(rewritten(archive, f"holdfast/{CORE}c", other)) == "source\n"


@pytest.mark.parametrize("same_length", [True, False])
def test_a_module_that_was_changed_is_compiled_again(tmp_path: Path, same_length: bool) -> None:
    package, archive = package_with(tmp_path, "print('first')\n"), tmp_path / "code.zip"
    node_code.pack(package, archive)
    (package / CORE).write_text("print('again')\n" if same_length else "print('another')\n")
    if same_length:  # As Python's own: told by the second of the change.
        os.utime(package / CORE, (1e9, 1e9))
    node_code.pack(package, archive)
    assert printed_by(archive) == ("again\n" if same_length else "another\n")


def test_modules_of_the_runs_client_have_bytecode_and_others_of_systems_do_not(
    tmp_path: Path,
) -> None:
    package = package_with(tmp_path, "")
    for name in ("clusters/systems/mine/client.py", "clusters/systems/other/client.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    node_code.pack(package, tmp_path / "code.zip", client="holdfast.clusters.systems.mine")
    names = zipfile.ZipFile(tmp_path / "code.zip").namelist()
    assert [name for name in names if name.endswith(".pyc")] == [
        "holdfast/harness/core/__init__.pyc", f"holdfast/{CORE}c",
        "holdfast/clusters/systems/mine/client.pyc",
    ]  # fmt: skip


@pytest.mark.parametrize("reason", ["not asked", "no place", "no program"])
def test_without_bytecode_a_node_compiles_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    text = "(" if reason == "no program" else "print('source')\n"
    package, archive = package_with(tmp_path, text), tmp_path / "code.zip"
    monkeypatch.setattr(sys, "dont_write_bytecode", reason == "not asked")
    if reason == "no place":
        # A folder of this name cannot be written as a file, by root either.
        Path(cache_from_source(str(package / CORE))).mkdir(parents=True)
    node_code.pack(package, archive)
    assert f"holdfast/{CORE}c" not in zipfile.ZipFile(archive).namelist()
    if reason != "no program":
        assert printed_by(archive) == "source\n"
