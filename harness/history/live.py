"""Live view of a running history: current holders, number of grants, ready writers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history.reader import Header, read_header, rows_at, segment_files
from holdfast.harness.history.so_far import LOOK_S, CurrentHolds, EventCounts, Hold
from holdfast.harness.plans.events import Event
from holdfast.harness.recording.segments import READY

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
        self._events = EventCounts()
        self.ops = 0

    @property
    def grants(self) -> int:
        """How many there were until the last look."""
        return self._current.grants

    def states(self) -> dict[str, int]:
        """The state that each writer reports, by writer."""
        state_of: dict[str, int] = {}
        for path in segment_files(self._directory):
            try:
                header = read_header(path)
            except OSError:
                continue
            # It only grows, and a segment that is full may keep what it was then.
            state_of[header.writer] = max(header.state, state_of.get(header.writer, 0))
        return state_of

    def ready(self, writer: str) -> bool:
        """Whether the writer has reported that it is ready to start."""
        return self.states().get(writer, 0) >= READY

    def holds(self) -> list[Hold]:
        """Current holds, the most recently granted first."""
        self.look()
        return self._current.holds()

    def happened(self, what: Event) -> tuple[int, int]:
        """How often an event happened so far, and when it did last (ns; 0: never)."""
        self.look()
        return self._events.happened(what)

    async def news(self) -> None:
        """Returns when there may be new rows: files do not notify, so they are polled."""
        await asyncio.sleep(LOOK_S)

    changes = news

    def look(self) -> None:
        """Read what was written since the last read."""
        for path in segment_files(self._directory):
            cursor = self._cursors.get(path)
            if cursor is None:
                cursor = self._cursors[path] = _Cursor(read_header(path))
            while self._follow(cursor):
                pass

    def _follow(self, cursor: _Cursor) -> bool:
        """Process what is new in one segment; True if there may be more."""
        path = cursor.header.path
        if cursor.read == cursor.header.capacity and not cursor.pending:
            return False
        node = str(cursor.header.meta.get("node", cursor.header.writer))
        pending = []
        for n in cursor.pending:
            row = rows_at(path, n, 1)[0]
            if row["status"] == Status.INVOKED:
                pending.append(n)
            else:
                self._answered(row, node)
        rows = rows_at(path, cursor.read, LOOK_ROWS)
        empty = np.flatnonzero(rows["status"] == Status.EMPTY)
        rows = rows[: empty[0]] if len(empty) else rows
        for n, row in enumerate(rows, cursor.read):
            self._begun(row, node)
            if row["status"] == Status.INVOKED:
                pending.append(n)
            else:
                self._answered(row, node)
        cursor.pending = pending
        cursor.read += len(rows)
        return len(rows) == LOOK_ROWS

    def _begun(self, row: np.void, node: str) -> None:
        """A call was made, or a notice came."""
        self.ops += 1
        self._events.add(row["f"], Status.INVOKED, int(row["t_inv"]) + self._shift_ns(node))
        if row["f"] in (Op.RELEASE, Op.LOST, Op.FORCE_UNLOCK):
            self._current.end(int(row["attempt"]))
        elif row["f"] == Op.CLOSED:
            self._current.close(int(row["process"]))

    def _answered(self, row: np.void, node: str) -> None:
        """A call has its outcome."""
        self._events.add(row["f"], row["status"], int(row["t_ret"]) + self._shift_ns(node))
        if row["f"] in (Op.ACQUIRE, Op.TRY) and row["status"] == Status.OK:
            self._grant(row, node)

    def _grant(self, row: np.void, node: str) -> None:
        hold = Hold(
            process=int(row["process"]),
            node=node,
            attempt=int(row["attempt"]),
            since_ns=int(row["t_ret"]) + self._shift_ns(node),
        )
        self._current.grant(hold)
