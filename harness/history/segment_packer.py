"""Packs the full segments of a run while it goes on, in a thread of low priority.

Only what its writer has closed is packed, and the packed file takes the place of the other one at
once: a reader finds one of the two, also if this process or the writer is killed.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import ROW_BYTES
from holdfast.harness.history import packed_columns, reader
from holdfast.harness.history.beside_run import BesideRun
from holdfast.harness.recording.segments import HEADER_BYTES, PACKED, SCHEMA_AT, SEGMENT_ROWS
from holdfast.harness.runs import files

EVERY_S = 1.0


class Packer(BesideRun):
    """Packs the history in a folder from entry to exit. Its writers have to be on this machine."""

    def __init__(self, directory: Path) -> None:
        super().__init__("packer")
        self._directory = directory
        self._done: set[str] = set()

    def work(self) -> None:
        """Looks once a second, and once more when the run has ended."""
        while not self.over.wait(EVERY_S):
            self.look()
        self.look()

    def look(self) -> None:
        """Packs what is full and closed by now."""
        for path in reader.segment_files(self._directory):
            if path.name in self._done:
                continue
            # A damaged segment stays as it is, for the judge to report; so does any on a full disk.
            with suppress(OSError, UsageError):
                header = reader.read_header(path)
                if header.rows is None:
                    continue
                self._done.add(path.name)
                full = 0 < header.rows == header.capacity <= SEGMENT_ROWS
                if full and not header.packed:
                    pack(header)


def pack(header: reader.Header) -> None:
    """Replaces a full segment by a packed one, if that is smaller."""
    folder, name = header.path.parent, header.path.name
    data = files.read(folder, name, reader.MOST_BYTES)
    if len(data) != HEADER_BYTES + header.capacity * ROW_BYTES:
        return
    made = packed(data)
    unpacked = packed_columns.columns(
        lambda at, count: made[at : at + count], header.capacity, 0, header.capacity
    )
    rows = np.frombuffer(data, reader.ROW_DTYPE, offset=HEADER_BYTES)
    # The other file is gone afterwards.
    same = all(np.array_equal(rows[field], column) for field, column in unpacked.items())
    if same and len(made) < len(data):
        files.write(folder, name, made)


def packed(data: bytes) -> bytes:
    """A closed segment, packed."""
    head = bytearray(data[:HEADER_BYTES])
    head[SCHEMA_AT : SCHEMA_AT + 4] = PACKED.to_bytes(4, "little")
    rows = np.frombuffer(data, reader.ROW_DTYPE, offset=HEADER_BYTES)
    return bytes(head) + packed_columns.pack(rows)
