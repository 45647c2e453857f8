"""Control groups of memory that a killed fault agent left: found by their names, and removed."""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.clusters.backends import processes
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.runs import registry

ROOTS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
"""Where the groups of version 1 and 2 are."""
PREFIX = "holdfast-"
WITHIN_S, POLL_S = 2.0, 0.01


def find() -> Iterator[tuple[str, Path]]:
    """The label of the run that made it, and the folder of each group, which ends in the fault
    agent's pid and a number."""
    root = next((root for root in ROOTS if (root / "cgroup.procs").is_file()), None)
    for place, inside, _ in os.walk(root) if root else ():
        # Groups of others come and go meanwhile: `os.walk` passes over one that is gone.
        for name in sorted(fnmatch.filter(inside, f"{PREFIX}*-*-*")):
            label, _, _ = name.removeprefix(PREFIX).rsplit("-", 2)
            yield label, Path(place, name)


def unowned(label: str, path: Path) -> bool:
    """Whether the fault agent that made a group is gone, and all processes that were in it."""
    _, pid, _ = path.name.rsplit("-", 2)
    with suppress(OSError):
        empty = not (path / "cgroup.procs").read_text().split()
        owner = processes.environ(int(pid)).get(registry.RUN_VARIABLE) if pid.isdecimal() else label
        return empty and owner != label
    return False


def remove(path: Path) -> None:
    """Removes a group; processes in it go to the group above. EnvironmentFailed if refused."""
    deadline = time.monotonic() + WITHIN_S
    while path.is_dir():
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise EnvironmentFailed(f"{path}: {error.strerror}") from error
            with suppress(OSError):
                for pid in (path / "cgroup.procs").read_text().split():
                    (path.parent / "cgroup.procs").write_text(pid)
            time.sleep(POLL_S)
