"""The house rules that a machine can check: links, layering, sizes, words."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from holdfast.harness.core.extras import EXTRAS
from tests.house.imports import nodes, tree

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("harness", "workloads", "nemesis", "checkers", "clusters", "reports")
SIBLINGS = set(ROOMS) - {"harness"}
STDLIB_ONLY = (
    "harness/core/operations.py",
    "harness/core/ports.py",
    "harness/core/fault_traits.py",
    "harness/core/verdict.py",
    "harness/core/clock.py",
    "harness/core/seeds.py",
    "harness/core/errors.py",
    "harness/recording/segments.py",
    "harness/recording/packed_format.py",
    "harness/runs/files.py",
    "harness/recording/starvation.py",
    "harness/client/context.py",
    "harness/client/worker.py",
    "workloads",
    "nemesis/agent",
    "harness/core/loading.py",
    "harness/recording/phase.py",
    "harness/runs/registry.py",
    "harness/verification",
    "clusters/backends/processes.py",
    "clusters/backends/ssh/system_queries.py",
    "clusters/backends/ssh/node_network.py",
    "clusters/backends/ssh/file_mirror.py",
    "clusters/backends/ssh/host_agent.py",
    "clusters/systems/reference",
    "clusters/systems/single",
    "clusters/systems/majority",
    "clusters/systems/redis/resp.py",
    "clusters/systems/redlock",
    "clusters/systems/database_client.py",
    "clusters/systems/dynamodb",
    "clusters/systems/postgres/server.py",
    "clusters/systems/mariadb/server.py",
    "clusters/systems/galera/node.py",
    "clusters/systems/etcd",
    "clusters/systems/user_class",
    "clusters/systems/program",
)
FUNCTION_LINES, FILE_LINES, LINE_WIDTH = 60, 700, 100
BUILT = ("build", "dist", "__pycache__")


def sources() -> list[Path]:
    """Every Python file of the project: what git tracks or would track; all, where git says
    nothing."""
    words = ["git", "ls-files", "-co", "--exclude-standard", "*.py"]
    try:
        listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return walked()
    return [ROOT / name for name in listed.stdout.split() if (ROOT / name).is_file()]


def walked() -> list[Path]:
    """Every Python file below the root, but of what is built and of hidden folders."""
    found: list[Path] = []
    for folder, below, names in os.walk(ROOT):
        below[:] = sorted(name for name in below if name[0] != "." and name not in BUILT)
        found += [Path(folder, name) for name in sorted(names) if name.endswith(".py")]
    return found


def test_without_git_the_same_files_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    tracked = set(sources())
    monkeypatch.setenv("PATH", "")
    assert shutil.which("git") is None
    assert set(sources()) == tracked


def test_what_a_test_needs_is_asked_for_in_one_place() -> None:
    """Whether a test is skipped is said by needs.py, with the reason and what CI makes of it."""
    for path in sources():
        if path.relative_to(ROOT).parts[0] == "tests" and path.name != "needs.py":
            # Every one of the words has it, so a file without it needs no look at its code.
            code = outside_of_strings(path) if "skip" in path.read_text() else ""
            for words in ("pytest.skip(", "pytest.importorskip", "pytest.mark.skipif"):
                assert words not in code, f"{path}: {words}"


def outside_of_strings(path: Path) -> str:
    """The code of a file as Python would write it, without its texts."""

    class Emptied(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.Constant:
            return ast.Constant("") if isinstance(node.value, str) else node

        def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Constant:
            return ast.Constant("")

    return ast.unparse(Emptied().visit(ast.parse(path.read_text())))


def imports(path: Path) -> list[str]:
    """Names of the modules that a file imports, at any depth of nesting."""
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.append(node.module or "")
    return found


def test_the_six_links_point_at_the_rooms() -> None:
    for room in ROOMS:
        link = ROOT / "src" / "holdfast" / room
        assert link.is_symlink(), f"{link} is not a link; an editable install needs it"
        assert link.readlink() == Path("..", "..", room)


def test_the_source_archive_names_every_file_of_the_front_door() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = set(table["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"])
    front = {
        f"src/holdfast/{path.name}"
        for path in (ROOT / "src" / "holdfast").iterdir()
        if not path.is_symlink() and path.name != "__pycache__"
    }
    assert front <= named
    assert set(ROOMS) <= named


def test_imports_point_one_way() -> None:
    for path in sources():
        room = path.relative_to(ROOT).parts[0]
        if room not in ROOMS:
            continue
        for name in imports(path):
            parts = name.split(".")
            if parts[0] != "holdfast":
                continue
            target = parts[1] if len(parts) > 1 else "front door"
            assert target in {room, "harness"}, f"{path}: {room} imports {name}"
            if room == "harness":
                assert target == "harness", f"{path}: harness imports {name}"


def test_an_optional_package_is_imported_where_it_is_used_and_never_before() -> None:
    """The base alone can import every module; harness/core/extras.py says what is missing."""
    for path in sources():
        if path.relative_to(ROOT).parts[0] not in (*ROOMS, "src"):
            continue
        for node in tree(path).body:
            names = [alias.name for alias in getattr(node, "names", [])]
            names += [getattr(node, "module", None) or ""]
            if isinstance(node, ast.Import | ast.ImportFrom):
                packages = {name.split(".")[0] for name in names}
                assert not packages & set(EXTRAS), f"{path}: {packages & set(EXTRAS)}"


def test_what_travels_needs_the_standard_library_only() -> None:
    import sys

    allowed = sys.stdlib_module_names | {"holdfast"}
    for entry in STDLIB_ONLY:
        place = ROOT / entry
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        for path in files:
            for name in imports(path):
                assert name.split(".")[0] in allowed, f"{path} imports {name}"


def test_no_cancellation_is_lost_to_wait_for() -> None:
    """`asyncio.wait_for` of Python 3.11 returns a response that meets a cancellation, which is
    lost: `asyncio.timeout` keeps both."""
    for path in sources():
        if path.relative_to(ROOT).parts[0] == "tests":
            continue
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and node.attr == "wait_for":
                assert ast.unparse(node.value) != "asyncio", f"{path}:{node.lineno}"


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_fits_a_sitting_and_a_function_a_screen(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= FILE_LINES, f"{len(lines)} lines"
    for n, line in enumerate(lines, 1):
        assert len(line) <= LINE_WIDTH, f"line {n} is {len(line)} wide"
    assert not lines or ast.get_docstring(tree(path)), "a module begins with one plain sentence"
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            assert size <= FUNCTION_LINES, f"{node.name} has {size} lines"
