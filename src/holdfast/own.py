"""`--system mylock.py:MyLock`: from the name of a file and a class to an entry like any other."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from holdfast.catalogue import SYSTEMS, SystemRow
from holdfast.clusters.systems.own import PREFIX
from holdfast.harness.entry import load, load_file
from holdfast.harness.errors import UsageError
from holdfast.harness.plan import OWN

MOST = 9


def file_of(system: str) -> Path | None:
    """The user's file behind the name of a system; None for one of the catalogue."""
    return None if system in SYSTEMS else Path(system.rpartition(":")[0])


def module_of(path: Path) -> str:
    """The module name under which a user's file is known everywhere."""
    return PREFIX + re.sub(r"\W", "_", path.stem)


def row(system: str) -> SystemRow:
    """The row of a system, of the catalogue or of the user's own. The file is read anew.

    UsageError where the file cannot be read, does not run, or has no such class.
    """
    if system in SYSTEMS:
        return SYSTEMS[system]
    assert OWN.fullmatch(system), system
    path, _, name = system.rpartition(":")
    module = module_of(Path(path))
    load_file(module, Path(path))
    entry = f"holdfast.clusters.systems.own.system:{module}.{name}"
    made = load(entry)
    return SystemRow(
        entry=entry, says="a lock of your own", nodes=made.nodes, most=MOST if made.nodes else 0
    )


def fingerprint(systems: Iterable[str]) -> str:
    """Changes when one of the users' files among these systems does."""
    found = hashlib.sha256()
    for path in sorted({path for name in systems if (path := file_of(name)) is not None}):
        try:
            found.update(path.read_bytes())
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    return found.hexdigest()[:16]
