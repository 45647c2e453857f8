"""A lock of the user's own: one class in one file, whatever it talks to."""

import re
from pathlib import Path

PREFIX = "holdfast_own_"
"""Before the module name of the user's file, so that it meets no module of anybody else."""


def module_of(path: Path) -> str:
    """The module name under which a user's file, or the copy of one in a run, is imported."""
    return PREFIX + re.sub(r"\W", "_", path.stem.removeprefix(PREFIX))
