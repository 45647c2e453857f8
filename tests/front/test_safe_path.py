"""No Python that we start takes modules from the folder it happens to be in."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.house.test_house import ROOMS, ROOT, sources

HOLDFAST = Path(sys.executable).with_name("holdfast")
SAFE = {"-P", "-I"}
OF_A_PYTHON = ("sys.executable", "node.python", "host.python", "python")
BY_FILE_ONLY = {"clusters/systems/user_class/system.py"}
"""Begins with a user's words: `-P` before `-m` and `-c`, none before a script (its own test)."""
HOSTILE = """
with open({mark!r}, "a") as mark:
    mark.write(__name__ + "\\n")
raise SystemExit("this module was not meant")
"""
BEYOND_STDLIB = ("holdfast", "msgspec", "numpy", "click", "rich", "docker", "paramiko", "pip")


def product() -> list[Path]:
    return [path for path in sources() if path.relative_to(ROOT).parts[0] in (*ROOMS, "src")]


def commands(tree: ast.AST) -> Iterator[list[str]]:
    """The words of every list or tuple in a file that starts a Python, as far as they are plain."""
    named = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            words: list[str] = []
            for element in node.elts:
                if isinstance(element, ast.Starred):
                    element = named.get(ast.unparse(element.value), element.value)
                if isinstance(element, ast.List | ast.Tuple):
                    words += [ast.unparse(part) for part in element.elts]
                else:
                    words.append(ast.unparse(element))
            words = [word.strip("'\"") for word in words]
            if "-m" in words or (words and words[0].endswith(OF_A_PYTHON) and len(words) > 1):
                yield words


def test_every_python_that_we_start_is_kept_from_the_current_folder() -> None:
    found = 0
    for path in product():
        name = str(path.relative_to(ROOT))
        for words in commands(ast.parse(path.read_text())):
            if name in BY_FILE_ONLY or "sys.executable" in words[:1] == words:
                continue
            found += 1
            assert SAFE & set(words), f"{name}: {' '.join(words)}: start it with -P"
    assert found >= 15


def test_the_search_would_see_a_start_without_the_flag() -> None:
    for text in ('[sys.executable, "-m", "x"]', '(node.python, "-S", "-m", m)', '("-m", x)'):
        (words,) = commands(ast.parse(text))
        assert not SAFE & set(words)


def hostile(folder: Path) -> Path:
    """A folder of modules with the names of all that we import; the file they would leave."""
    mark = folder / "imported"
    folder.mkdir()
    for name in {*sys.stdlib_module_names, *BEYOND_STDLIB} - {"__main__"}:
        (folder / f"{name}.py").write_text(HOSTILE.format(mark=str(mark)))
    return mark


def holdfast(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(HOLDFAST), *words], cwd=folder, capture_output=True, text=True, timeout=180
    )


CAMPAIGN = """
schema = "holdfast-campaign/1"
systems = ["single"]
backend = "sim"
seeds = 4
time = "2s"
"""
RUN = (
    "run",
    "--time",
    "1s",
    "--seed",
    "1",
    "--clients",
    "2",
    "--nemesis",
    "pause:every=300ms,for=100ms",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        (*RUN, "--backend", "local"),
        (*RUN, "--backend", "local", "--system", "reference"),
        ("doctor",),
        ("campaign", "campaign.toml", "--out", "of", "-j", "2"),
        ("sim", "--seeds", "4", "--twice-every", "2"),
    ],
    ids=lambda words: "-".join(words[:1]),
)  # fmt: skip
def test_a_folder_of_hostile_modules_is_imported_by_nobody(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    if "local" in words:
        needs.namespaces()
    mark = hostile(tmp_path / "hostile")
    (tmp_path / "hostile" / "campaign.toml").write_text(CAMPAIGN)
    done = holdfast(tmp_path / "hostile", *words)
    assert not mark.exists(), mark.read_text()
    assert "this module was not meant" not in done.stderr
    assert done.returncode in (0, 3), f"{done.stdout}\n{done.stderr}"


def test_an_empty_part_of_the_path_is_not_the_current_folder_for_a_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.engine.driver_process import _environment
    from holdfast.harness.runs.directory import RunDir

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "/lib", ""]))
    assert _environment(RunDir(tmp_path))["PYTHONPATH"] == "/lib"
