"""What a user's file imports: modules beside it, copied into the run, and installed packages.

Clients on other nodes have the copies; installed packages only clients on this machine can have.
"""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

MOST_FILES = 500
PREFIX = "holdfast_own_"
"""Prefix of the module name of a user's file, so that it does not clash with other modules."""


def module_of(path: Path) -> str:
    """The module name under which a user's file, or the copy of one in a run, is imported."""
    return PREFIX + re.sub(r"\W", "_", path.stem.removeprefix(PREFIX))


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


def installed(path: Path) -> list[str]:
    """Top-level packages that a file, or a module beside it, imports and that are neither beside it
    nor of the standard library nor Holdfast."""
    beside = neighbours(path)
    ours = {Path(below).parts[0].removesuffix(".py") for below in beside} | {"holdfast"}
    found = dict.fromkeys(name for file in [path, *beside.values()] for name in _imported(file))
    return [name for name in found if name not in ours and name not in sys.stdlib_module_names]


def site_folders() -> list[str]:
    """The import folders of this environment behind those of the standard library: installed
    packages, and folders that a .pth file names."""
    standard = sysconfig.get_path("stdlib")
    own = [standard, str(Path(standard) / "lib-dynload")]
    behind = max((n for n, folder in enumerate(sys.path) if folder in own), default=-1)
    return [folder for folder in sys.path[behind + 1 :] if Path(folder).is_dir()]


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
