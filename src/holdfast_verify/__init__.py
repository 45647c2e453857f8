"""Starts the verifier of an installation by itself: the modules that it needs lie in `parts`.

They are those of Holdfast of the same version, byte for byte, under their own names, and come first
on the path: an installation of Holdfast beside it is not used.
"""

import sys
from pathlib import Path

PARTS = Path(__file__).parent / "parts"


def main() -> int:
    """The exit code."""
    sys.path.insert(0, str(PARTS))
    from holdfast.harness.verification import command

    return command.main(sys.argv[1:])
