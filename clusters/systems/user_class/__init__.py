"""A user's lock: one class in one file, with any server."""

import re
from pathlib import Path

PREFIX = "holdfast_own_"
"""Prefix of the module name of the user's file, so that it does not clash with other modules."""


def module_of(path: Path) -> str:
    """The module name under which a user's file, or the copy of one in a run, is imported."""
    return PREFIX + re.sub(r"\W", "_", path.stem.removeprefix(PREFIX))
