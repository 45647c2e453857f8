"""The one place that turns a name into code: "module:attr" -> the thing itself."""

from __future__ import annotations

import importlib
from typing import Any

from holdfast.harness.errors import UsageError


def load(name: str) -> Any:
    """The attribute `attr` of `module`, for a name "module:attr"; UsageError if it is not there."""
    module, _, attr = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attr)
    except ImportError as error:
        raise UsageError(f"cannot import {module}: {error}") from error
    except AttributeError as error:
        raise UsageError(f"{module} has no {attr!r}") from error
