"""TOML: parses untrusted texts, in which no value may be nested too deeply, and quotes values."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any

DEEPEST = 64
_PAIR = re.compile(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}")
"""JSON's escape of one character above U+FFFF, of which TOML knows only `\\U0001f512`."""


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


def quoted(value: str | Sequence[str]) -> str:
    """A text, or an array of texts, as TOML in ASCII."""
    return _PAIR.sub(_one_character, json.dumps(value))


def _one_character(pair: re.Match[str]) -> str:
    code = ord(json.loads('"' + pair[0] + '"'))
    return f"\\U{code:08x}"
