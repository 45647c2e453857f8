"""Loads objects by name: "module:attr" -> the object."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from holdfast.harness.core.errors import UsageError


def load(name: str) -> Any:
    """The attribute `attr` of `module`, for a name "module:attr"; UsageError if it is not there."""
    module, _, attr = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attr)
    except ImportError as error:
        raise UsageError(f"cannot import {module}: {error}") from error
    except AttributeError as error:
        raise UsageError(f"{module} has no {attr!r}") from error


def load_file(module: str, path: Path) -> None:
    """Execute a file as the module of that name, again each time; UsageError if that fails."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(module, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[module] = made
    try:
        # The loader would take the cached bytes of an older file of the same second.
        exec(compile(path.read_bytes(), str(path), "exec"), made.__dict__)
    except Exception as error:
        del sys.modules[module]
        raise UsageError(f"{path}: execution failed: {type(error).__name__}: {error}") from error
