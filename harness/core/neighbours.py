"""Modules of a user's repository that a user's file imports: those beside it, and what they import.

A run copies them with the file, so that clients on other nodes have them too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_FILES = 500


def neighbours(path: Path) -> dict[str, Path]:
    """The files of modules and packages in the folder of `path` that it imports, directly or by
    way of each other, by their path below that folder.

    A name of the standard library is always that of the standard library: a copy in the import path
    of a run would hide it from everything else. A file that cannot be parsed imports nothing.
    """
    folder = path.parent
    found: dict[str, Path] = {}
    left = [path]
    while left and len(found) < MOST_FILES:
        for name in _imported(left.pop()):
            if name in sys.stdlib_module_names:
                continue
            for file in _files(folder, name):
                below = str(file.relative_to(folder))
                if below not in found and file.resolve() != path.resolve():
                    found[below] = file
                    left.append(file)
    return found


def _files(folder: Path, name: str) -> list[Path]:
    """The files of a top-level module or package of a folder; a package is taken whole."""
    if (folder / name / "__init__.py").is_file():
        return sorted((folder / name).rglob("*.py"))
    return [folder / f"{name}.py"] if (folder / f"{name}.py").is_file() else []


def _imported(path: Path) -> Iterator[str]:
    """Names of the top-level modules that a file imports, anywhere in it."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
