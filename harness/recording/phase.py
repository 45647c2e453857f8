"""The phase of a run, one byte in a mapped file: the driver writes it, every worker reads it.

A file needs no connection, so it works during a partition and without messages.
"""

from __future__ import annotations

import mmap
from pathlib import Path

PREPARE, GO, STOP, PROBE, END = 0, 1, 2, 3, 4
"""Open clients; run the workload; begin nothing new; probe every lock; close and leave."""


class Phase:
    """The phase file of one run. `create` it once, `open` it everywhere else."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        with path.open("r+b" if writable else "rb") as file:
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            self._map = mmap.mmap(file.fileno(), 1, access=access)

    @staticmethod
    def create(path: Path) -> Phase:
        """A new phase file, at PREPARE."""
        path.write_bytes(bytes([PREPARE]))
        return Phase(path, writable=True)

    def get(self) -> int:
        return self._map[0]

    def set(self, phase: int) -> None:
        self._map[0] = phase

    def close(self) -> None:
        self._map.close()
