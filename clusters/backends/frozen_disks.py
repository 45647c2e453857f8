"""Thaws the disks of an aborted run: until then a process that writes to one cannot be killed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

THAW = 0xC0045878
"""FITHAW of linux/fs.h."""


def thaw(pid: int) -> None:
    """Thaws every disk that a process sees and this one does not: the disks of a run are mounted
    in a mount namespace of the run. One that is not frozen stays as it is."""
    with suppress(OSError):
        ours = {device for device, _ in _mounts("self")}
        for device, at in _mounts(pid):
            if device not in ours:
                with suppress(OSError):
                    _thaw(f"/proc/{pid}/root{at}")


def _thaw(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(folder, THAW, b"\0\0\0\0")
    finally:
        os.close(folder)


def _mounts(pid: int | str) -> Iterator[tuple[str, str]]:
    """Device number and mount point of each ext4 on a loop device that a process sees."""
    for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("ext4 /dev/loop"):
            _, _, device, _, at, *_ = before.split()
            yield device, at.replace("\\040", " ")
