"""Parses untrusted TOML: values that are nested too deeply are rejected."""

from __future__ import annotations

import tomllib
from typing import Any

DEEPEST = 64


def loads(text: str) -> dict[str, Any]:
    """The table of a text. tomllib.TOMLDecodeError, a ValueError, for an invalid one."""
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("values are nested too deeply") from None
    level: list[Any] = [table]
    for _ in range(DEEPEST):
        inner = (list(value.values()) if isinstance(value, dict) else value for value in level)
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return table
    raise tomllib.TOMLDecodeError("values are nested too deeply")
