"""A full disk: its part in the exit of a process, and lines that are written whole."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.harness.core.errors import FULL, NEXT

REASON = os.strerror(errno.ENOSPC)
LITTLE = 1 << 16
"""Bytes that a disk has left when a process could not even write why it exited."""


def next_step(output: str) -> str:
    """What to do about a process's last output, as the end of its line; "" of another failure."""
    full = any(os.strerror(number) in output for number in FULL)
    return f": {NEXT}" if full else ""


def has_little(folder: Path) -> bool:
    """Whether a folder's disk is full now."""
    try:
        left = os.statvfs(folder)
    except OSError:
        return False
    return left.f_bavail * left.f_frsize < LITTLE


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Adds the file to an error that names none: a failed write knows its descriptor only."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def append_whole(file: int, data: bytes) -> None:
    """Appends data to a file that only this process writes. OSError if the disk cannot take all
    of it; then nothing is added: half a line would damage the one that follows."""
    before = os.fstat(file).st_size
    try:
        written = os.write(file, data)
    except OSError:
        os.ftruncate(file, before)
        raise
    if written < len(data):
        os.ftruncate(file, before)
        raise OSError(errno.ENOSPC, REASON)
