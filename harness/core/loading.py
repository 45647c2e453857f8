"""Loads objects by name: "module:attr" -> the object."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.user_imports import neighbours

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
