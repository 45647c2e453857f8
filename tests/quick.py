"""The tests that a change can break first, within half a minute: `python -m tests.quick [FILE ...]`

Of the files named, or of all that git has as changed, else of the last commit. Tests that import a
changed file come first, then those that import what imports it, and so on; a name in a catalogue
counts as an import, and so does the name of a file that is no Python. As many run as fit in BUDGET
by the times in `kept_times.txt`; how many others the change could break is the first line. It says
nothing about those: `make check` does.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from holdfast import catalogue
from tests.kept_times import Times, kept

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("harness", "workloads", "nemesis", "checkers", "clusters", "reports", "src/holdfast")
NAMES = ROOT / "harness/core/verdict.py"
"""Declares the properties by their names and loads no checker."""
TABLES = ROOT / "src/holdfast/catalogue/__init__.py"
"""Makes the modules of checkers from those names."""
BY_NAME = {
    ROOT / "harness/properties/__init__.py": "holdfast.harness.properties.",
    ROOT / "harness/verification/rules.py": "holdfast.harness.verification.properties.",
}
"""What loads all modules of a folder, by their names."""
BUDGET = 30.0
"""Seconds of tests: two processes take half of it, and as long to begin and to collect."""
UNKNOWN = 1.0
"""Seconds of a file that was never measured."""
QUICK = "not docker and not real_server and not slow and not power"
FROM = re.compile(r"^\s*from ((?:holdfast|tests)[\w.]*) import (\([^)]*\)|[^\n]*)", re.M)
QUOTED = re.compile(r'"(?:holdfast\.)?([a-z][\w.-]*)(?::\w+)?"')


@functools.cache
def entries() -> dict[str, str]:
    """What a catalogue calls by a name, a word of the command line -> its module."""
    rows = {
        name: row.entry
        for table in (catalogue.SYSTEMS, catalogue.WORKLOADS, catalogue.NEMESES)
        for name, row in table.items()
    }
    every = {**rows, **catalogue.CHECKERS}
    return {name: entry.partition(":")[0] for name, entry in every.items()}


@functools.cache
def files() -> dict[str, Path]:
    """Module -> file, of the product and of the tests."""
    found = {}
    for room in (*ROOMS, "tests"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                found[module_of(path)] = path
    return found


def module_of(path: Path) -> str:
    """The name by which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else parts
    whole = parts if parts[0] in ("holdfast", "tests") else ("holdfast", *parts)
    return ".".join(part for part in whole if part != "__init__")


def needs(path: Path) -> Iterator[str]:
    """The modules that a file imports anywhere, or names as a catalogue does."""
    text = path.read_text()
    for module, names in FROM.findall(text):
        for name in re.findall(r"\w+", re.sub(r"#.*| as \w+", "", names)):
            whole = f"{module}.{name}"
            yield whole if whole in files() else module
    for name in QUOTED.findall(text) if path != NAMES else ():
        yield entries().get(name, f"holdfast.{name}")
    if path in BY_NAME:
        yield from (module for module in files() if module.startswith(BY_NAME[path]))
    if path == TABLES:
        yield from (entry.partition(":")[0] for entry in catalogue.CHECKERS.values())
    if path.name.startswith("test_"):
        rooms = path.relative_to(ROOT).parents
        yield from (module_of(ROOT / room / "conftest.py") for room in rooms if room.name)


@functools.cache
def users() -> Mapping[str, set[str]]:
    """Module -> the modules that need it."""
    found = defaultdict[str, set[str]](set)
    for module, path in files().items():
        for needed in needs(path):
            found[needed].add(module)
    return found


def changed() -> list[Path]:
    """What git has as changed or new; what the last commit changed, if that is nothing."""
    for words in (("diff", "--name-only", "HEAD"), ("diff", "--name-only", "HEAD~1", "HEAD")):
        named = [*_git(*words), *_git("ls-files", "--others", "--exclude-standard")]
        if named:
            return [ROOT / name for name in named]
    return []


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def starts(paths: Iterable[Path]) -> set[str]:
    """The modules that a change of these files changes: they, or those that name one."""
    found, named = set[str](), set[str]()
    for path in paths:
        module = module_of(path) if path.suffix == ".py" else ""
        if module in files():
            found.add(module)
        elif path.suffix != ".py":
            named.add(path.name)
    for module, path in files().items() if named else ():
        text = path.read_text()
        found |= {module} if any(f'{name}"' in text for name in named) else set()
    return found


def distances(begun: Iterable[str]) -> dict[str, int]:
    """How many imports away each module is that such a change can reach."""
    found, edge = dict.fromkeys(begun, 0), list(begun)
    for module in edge:
        for user in sorted(users().get(module, ())):
            if user not in found:
                found[user] = found[module] + 1
                edge.append(user)
    return found


def chosen(paths: Iterable[Path], budget: float = BUDGET) -> tuple[list[str], int]:
    """The files of tests that fit, nearest first, and how many more the change can reach."""
    times, spent, fit, left = kept(), 0.0, list[str](), 0
    reached = [
        (steps, times.get(name, Times(UNKNOWN, 0.0, 0.0, 0.0)).test, name)
        for module, steps in distances(starts(paths)).items()
        if (name := str(files()[module].relative_to(ROOT))).rpartition("/")[2].startswith("test_")
    ]
    for _, seconds, name in sorted(reached):
        if spent + seconds > budget:
            left += 1
            continue
        spent += seconds
        fit.append(name)
    return fit, left


def main(argv: Sequence[str]) -> int:
    """The exit code."""
    fit, left = chosen([Path(name).resolve() for name in argv] or changed())
    sys.stdout.write(f"{len(fit)} files of tests; {left} others that this can reach do not fit\n")
    sys.stdout.flush()
    words = ["-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-m", QUICK]
    return int(pytest.main([*words, *fit])) if fit else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
