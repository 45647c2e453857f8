"""Loads objects by name, "module:attr" -> the object, and finds what a user's file imports.

That is: modules beside it, copied into the run, and installed packages. Clients on other nodes have
the copies; installed packages only clients on this machine can have.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.harness.core.errors import UsageError

MOST_NAMES = 8
"""Names of a module in a message."""


def load(name: str) -> Any:
    """The attribute `attr` of `module`, for a name "module:attr"; UsageError if it is not there."""
    module, _, attr = name.partition(":")
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"cannot import {module}: {error}") from error
    try:
        return getattr(found, attr)
    except AttributeError as error:
        raise UsageError(no_attribute(found, attr)) from error


def no_attribute(module: ModuleType, attr: str) -> str:
    """What a module lacks, with the names that it defines and the one that may be meant."""
    own = [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
    ]
    close = difflib.get_close_matches(attr, own, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    known = f" (it defines {', '.join(own[:MOST_NAMES])})" if own else ""
    # A user's file is known by its path, not by the name that its module was given.
    return f"{Path(module.__file__ or module.__name__).name} has no {attr!r}{hint}{known}"


def load_file(module: str, path: Path, *, again: bool = False) -> None:
    """Execute a file as the module of that name, once per content; UsageError if that fails.

    again: also if it was executed before; what the module keeps in memory is new then.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    texts = {file.resolve(): file.read_bytes() for file in (path, *neighbours(path).values())}
    if not again and module in sys.modules and _EXECUTED.get(module) == texts:
        return
    spec = importlib.util.spec_from_file_location(module, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[module] = made
    try:
        with _beside(path):
            # The loader would take the cached bytes of an older file of the same second.
            exec(compile(path.read_bytes(), str(path), "exec"), made.__dict__)
    except Exception as error:
        del sys.modules[module]
        told = f"{path}{_line(error, path)}: execution failed: {type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError):
            told += (
                f"; it is not installed beside Holdfast, in {sys.prefix}: install it there, or"
                " install Holdfast in the environment of your project"
            )
        raise UsageError(told) from error
    _EXECUTED[module] = texts


def _line(error: Exception, path: Path) -> str:
    """ ", line 3" where the file itself failed, and not what it calls."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""


@contextmanager
def _beside(path: Path) -> Iterator[None]:
    """Modules beside a file can be imported, afresh; Holdfast's own and installed ones first."""
    folder = str(path.parent.resolve())
    tops = {Path(below).parts[0].removesuffix(".py") for below in neighbours(path)}
    for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
        # Of another folder, or of an older text: what an installed package has loaded stays.
        if name.partition(".")[0] in _OF_USERS:
            del sys.modules[name]
    before, written = set(sys.modules), sys.dont_write_bytecode
    sys.path.append(folder)
    # The cached bytes of a module would be taken for those of its next text of the same second.
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = written
        sys.path.remove(folder)
        _OF_USERS.update({name.partition(".")[0] for name in set(sys.modules) - before} & tops)


_OF_USERS: set[str] = set()
"""Top-level modules that were loaded from beside a user's file."""
_EXECUTED: dict[str, dict[Path, bytes]] = {}
"""Module of a user's file -> the files that it was executed from, with their content."""


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
