"""Live view of a running history: current holders, number of grants, ready writers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from holdfast.harness.core.operations import ROW_BYTES, Op, Status
from holdfast.harness.history.current_holders import LOOK_S, CurrentHolds, Hold
from holdfast.harness.history.reader import Header, read_header, rows_at, segment_files
from holdfast.harness.recording.segments import HEADER_BYTES, READY

LOOK_ROWS = 512
"""Number of rows of a segment that are read at a time."""


@dataclass
class _Cursor:
    """The position reached in one segment, and its rows that had not returned yet."""

    header: Header
    read: int = 0
    pending: list[int] = field(default_factory=list)


class Live:
    """Follows the segments of a run that is still being written.

    shift_ns  offset to add to a node's timestamps to get the driver's clock
    """

    def __init__(self, directory: Path, shift_ns: Callable[[str], int] = lambda node: 0) -> None:
        self._directory = directory
        self._shift_ns = shift_ns
        self._cursors: dict[Path, _Cursor] = {}
        self._current = CurrentHolds()
        self.ops = 0

    @property
    def grants(self) -> int:
        """How many there were until the last look."""
        return self._current.grants

    def states(self) -> dict[str, int]:
        """The state that each writer reports, by writer."""
        found = {}
        for path in segment_files(self._directory):
            try:
                header = read_header(path)
            except OSError:
                continue
            if header.first_row == 0:
                found[header.writer] = header.state
        return found

    def ready(self, writer: str) -> bool:
        """Whether the writer has reported that it is ready to start."""
        return self.states().get(writer, 0) >= READY

    def holds(self) -> list[Hold]:
        """Current holds, the most recently granted first."""
        self.look()
        return self._current.holds()

    async def news(self) -> None:
        """Returns when there may be new rows: files do not notify, so they are polled."""
        await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        """Read what was written since the last read."""
        for path in segment_files(self._directory):
            cursor = self._cursors.get(path)
            if cursor is None:
                cursor = self._cursors[path] = _Cursor(read_header(path))
            while self._follow(cursor):
                pass

    def _follow(self, cursor: _Cursor) -> bool:
        """Process the next rows of one segment; True if there may be more."""
        first = min([cursor.read, *cursor.pending])
        at = HEADER_BYTES + first * ROW_BYTES
        rows = rows_at(cursor.header.path, at, LOOK_ROWS)
        empty = np.flatnonzero(rows["status"] == Status.EMPTY)
        rows = rows[: empty[0]] if len(empty) else rows
        node = str(cursor.header.meta.get("node", cursor.header.writer))
        pending = []
        for n, row in enumerate(rows, first):
            if n < cursor.read and n not in cursor.pending:
                continue
            if n >= cursor.read:
                self.ops += 1
                if row["f"] in (Op.RELEASE, Op.LOST, Op.FORCE_UNLOCK):
                    self._current.end(int(row["attempt"]))
                elif row["f"] == Op.CLOSED:
                    self._current.close(int(row["process"]))
            if row["f"] in (Op.ACQUIRE, Op.TRY):
                if row["status"] == Status.INVOKED:
                    pending.append(n)
                elif row["status"] == Status.OK:
                    self._grant(row, node)
        fresh = first + len(rows) - cursor.read
        cursor.pending = pending
        cursor.read += max(0, fresh)
        return len(rows) == LOOK_ROWS and fresh > 0

    def _grant(self, row: np.void, node: str) -> None:
        hold = Hold(
            process=int(row["process"]),
            node=node,
            attempt=int(row["attempt"]),
            since_ns=int(row["t_ret"]) + self._shift_ns(node),
        )
        self._current.grant(hold)
