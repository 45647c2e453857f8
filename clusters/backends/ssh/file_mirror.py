"""Incremental copy of a host's recordings: what was written since the last call, in pieces.

A row of a segment may be written while we read it, its status last. So the status is read first and
the row after it: a row that is sent as returned contains its result. Standard library only.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.harness.core.operations import ROW_BYTES, Status
from holdfast.harness.recording.segments import HEADER_BYTES, ROWS_AT

Piece = tuple[str, int, str]
"""[name under the run's folder, offset in the file, base64 of the bytes]"""

STATUS_AT = 91
BLOCK_ROWS = 512
MOST_BYTES = 1 << 19
LOG_BYTES = 1 << 16


@dataclass(slots=True)
class _Segment:
    """What was sent of one segment: its head, its next row, and rows without a return when sent."""

    head: bytes = b""
    next: int = 0
    pending: dict[int, int] = field(default_factory=dict)


class FileMirror:
    """Follows the files of one run's folder on this host."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._segments: dict[str, _Segment] = {}
        self._sent: dict[str, int] = {}

    def look(self) -> tuple[list[Piece], bool]:
        """New pieces, strings first, and whether there is more than fits into one response.

        A row may refer to a string; so the strings are read after the rows and sent before them.
        """
        rows: list[Piece] = []
        room = MOST_BYTES
        more = False
        for path in sorted((self._root / "history").glob("*.seg")):
            for piece in self._segment(path):
                rows.append(piece)
                room -= len(piece[2])
                if room < 0:
                    more = True
                    break
        texts = [p for path in self._files("history", "*.strings") for p in self._grown(path)]
        logs = [p for path in self._files("logs", "*/*.log") for p in self._grown(path, LOG_BYTES)]
        return [*texts, *rows, *logs], more

    def _files(self, folder: str, pattern: str) -> list[Path]:
        return sorted((self._root / folder).glob(pattern))

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._root))

    def _grown(self, path: Path, most: int = MOST_BYTES) -> Iterator[Piece]:
        name = self._name(path)
        at = self._sent.get(name, 0)
        with suppress(OSError), path.open("rb") as file:
            file.seek(at)
            data = file.read(most)
            if data:
                self._sent[name] = at + len(data)
                yield name, at, base64.b64encode(data).decode()

    def _segment(self, path: Path) -> Iterator[Piece]:
        name = self._name(path)
        known = self._segments.setdefault(name, _Segment())
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY)
            try:
                head = os.pread(file, HEADER_BYTES, 0)
                if not known.head:
                    known.head = head[:ROWS_AT] + bytes(8) + head[ROWS_AT + 8 :]
                    yield name, 0, base64.b64encode(known.head).decode()
                yield from self._answered(name, known, file)
                yield from self._fresh(name, known, file)
                # A head that counts the rows is sent after them: the link may fail in between.
                if head != known.head:
                    known.head = head
                    yield name, 0, base64.b64encode(head).decode()
            finally:
                os.close(file)

    def _answered(self, name: str, known: _Segment, file: int) -> Iterator[Piece]:
        """Rows that were sent before their return and have returned since."""
        for row, sent in list(known.pending.items()):
            at = HEADER_BYTES + row * ROW_BYTES
            status = os.pread(file, 1, at + STATUS_AT)
            if not status or status[0] == sent:
                continue
            if status[0] > Status.INVOKED:
                del known.pending[row]
            else:
                known.pending[row] = status[0]
            yield self._rows(name, at, os.pread(file, ROW_BYTES, at), status)

    def _fresh(self, name: str, known: _Segment, file: int) -> Iterator[Piece]:
        while True:
            at = HEADER_BYTES + known.next * ROW_BYTES
            statuses = os.pread(file, BLOCK_ROWS * ROW_BYTES, at)[STATUS_AT::ROW_BYTES]
            begun = len(statuses.rstrip(b"\0"))
            if not begun:
                return
            data = os.pread(file, begun * ROW_BYTES, at)
            yield self._rows(name, at, data, statuses[:begun])
            for n, status in enumerate(statuses[:begun], known.next):
                if status <= Status.INVOKED:
                    known.pending[n] = status
            known.next += begun

    def _rows(self, name: str, at: int, data: bytes, statuses: bytes) -> Piece:
        rows = bytearray(data)
        for n, status in enumerate(statuses):
            rows[n * ROW_BYTES + STATUS_AT] = status
        return name, at, base64.b64encode(rows).decode()
