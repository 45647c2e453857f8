"""`holdfast sim --since`: which lines changed, and which workloads run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.clusters.systems.reference.locks import deadlock
from holdfast.engine import changed_lines, swarm
from holdfast.engine.changed_lines import Function, changed, weighted
from holdfast.engine.seed_search import one_seed
from holdfast.harness.core.errors import UsageError
from tests import needs
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]

BEFORE = """
def kept():
    return 1


@staticmethod
def outer(x):
    def inner():
        return x

    if x:
        return inner
    return None
"""


def git(folder: Path, *words: str) -> None:
    needs.binary("git")
    who = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose only module is loaded, through a link as the folders of the package."""
    root = tmp_path / "repository"
    (root / "real").mkdir(parents=True)
    (root / "real" / "since_module.py").write_text(BEFORE)
    (root / "linked").symlink_to("real")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "one")
    load(root, "since_module", monkeypatch)
    return root


def load(root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the import of a module of the repository leaves."""
    module = ModuleType(name)
    module.__file__ = str(root / "linked" / f"{name}.py")
    monkeypatch.setitem(sys.modules, name, module)


def change(root: Path, before: str, after: str) -> list[tuple[str, tuple[int, ...]]]:
    file = root / "real" / "since_module.py"
    file.write_text(BEFORE.replace(before, after))
    found = changed("HEAD", root)
    assert {one.file for one in found} <= {root / "linked" / "since_module.py"}
    return [(one.name, one.lines) for one in found]


def test_a_line_belongs_to_the_innermost_function(repository: Path) -> None:
    assert change(repository, "return x\n", "return x + 1\n") == [("inner", (9,))]
    assert change(repository, "    if x:\n", "    if not x:\n") == [("outer", (11,))]
    assert change(repository, "@staticmethod", "@classmethod") == [("outer", (6,))]
    assert change(repository, "\n\n\n@", "\n\n\nCONSTANT = 1\n\n\n@") == []
    assert change(repository, "nothing of it", "") == []


def test_a_removed_line_is_those_around_it(repository: Path) -> None:
    assert change(repository, "    if x:\n        return inner\n", "") == [("outer", (10, 11))]


def test_a_new_file_has_changed_as_a_whole(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "real" / "since_other.py").write_text("def whole():\n    return 2\n")
    load(repository, "since_other", monkeypatch)
    assert [(one.name, one.lines) for one in changed("HEAD", repository)] == [("whole", (1, 2))]


@pytest.mark.parametrize("revision", ["nothing", "--output=/tmp/x", "", "HEAD~9"])
def test_an_unknown_revision_is_refused(repository: Path, revision: str) -> None:
    with pytest.raises(UsageError, match="no such revision"):
        changed(revision, repository)


def test_a_folder_of_no_repository_is_refused(tmp_path: Path) -> None:
    needs.binary("git")
    with pytest.raises(UsageError, match="not a git repository"):
        changed("HEAD", tmp_path)


def test_no_program_of_a_repository_is_executed(repository: Path) -> None:
    """A repository may name programs in its configuration: none of them is started."""
    mark = repository / "started"
    program = repository / "program"
    program.write_text(f'#!/bin/sh\ntouch {mark}\ncat "$1"\n')
    program.chmod(0o755)
    for name in ("core.fsmonitor", "diff.external", "diff.py.textconv", "filter.py.clean"):
        git(repository, "config", name, str(program))
    (repository / ".git" / "info" / "attributes").write_text("*.py diff=py filter=py\n")
    change(repository, "return x\n", "return x + 1\n")
    assert not mark.exists()


def line_of(text: str) -> Function:
    """`deadlock._blockers`, one line of which changed."""
    file = Path(deadlock.__file__)
    lines = file.read_text().splitlines()
    first = next(n for n, line in enumerate(lines, 1) if line.startswith("def _blockers"))
    at = next(n for n, line in enumerate(lines, 1) if n > first and text in line)
    return Function(file, first, "_blockers", (at,))


@pytest.mark.slow
def test_a_line_that_one_workload_runs_makes_it_frequent() -> None:
    found = weighted([line_of("return")], "reference", {})
    usual = swarm.weights("reference")
    parts = {name: weight / sum(found.weights.values()) for name, weight in found.weights.items()}
    assert max(parts, key=parts.__getitem__) == "many-locks"
    assert parts["many-locks"] > 0.5
    assert all(
        part >= 0.99 * changed_lines.SPREAD * usual[name] / sum(usual.values())
        for name, part in parts.items()
    )
    assert found.unrun == ()


def test_what_no_workload_runs_leaves_the_weights() -> None:
    never = Function(Path(deadlock.__file__), 100_000, "never", (100_001,))
    found = weighted([never], "majority", {})
    assert found.weights == swarm.weights("majority")
    assert found.unrun == (never,)


def test_a_seed_with_weights_is_the_seed_with_its_workload() -> None:
    weighted_seed = one_seed(4, "reference", {}, weights={"semaphore": 1.0})
    assert weighted_seed.workload == "semaphore"
    assert weighted_seed.digest == one_seed(4, "reference", {}, "semaphore").digest


def test_the_command_says_what_it_prefers(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(repository)
    words = ("sim", "--system", "single", "--seeds", "2", "-j", "1", "--since", "HEAD")
    assert "no function changed since HEAD: workloads as usual" in holdfast(capsys, *words).err
    change(repository, "return x\n", "return x + 1\n")
    said = holdfast(capsys, *words)
    assert "1 functions changed since HEAD" in said.err
    assert "run by no workload in the simulator: since_module.py:8 inner" in said.err
    refused = holdfast(capsys, *words, "--workload", "renewal")
    assert refused.code == 2 and "not together with --workload" in refused.err
