"""Live view of a running history: current holders, number of grants, ready writers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.operations import Op, Status
from holdfast.harness.history.reader import Header, read_header, read_state, rows_at, segment_files
from holdfast.harness.history.so_far import LOOK_S, CurrentHolds, EventCounts, Hold
from holdfast.harness.plans.events import Event
from holdfast.harness.recording.segments import READY

LOOK_ROWS = 512
"""Number of rows of a segment that are read at a time."""
EMPTY, INVOKED, OK = int(Status.EMPTY), int(Status.INVOKED), int(Status.OK)
CLOSED = int(Op.CLOSED)
ACQUIRES = frozenset(map(int, (Op.ACQUIRE, Op.TRY)))
ENDS = frozenset(map(int, (Op.RELEASE, Op.LOST, Op.FORCE_UNLOCK)))
"""As plain numbers: naming a member of an enumeration takes longer than what is done with a row."""


class _RecordedCall(NamedTuple):
    """Of a recorded row, the fields of these names."""

    f: int
    status: int
    t_inv: int
    t_ret: int
    process: int
    attempt: int


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
        self._writers: dict[Path, str] = {}
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
            writer = self._writers.get(path, "")
            try:
                if writer:
                    state = read_state(path)
                else:
                    header = read_header(path)
                    writer, state = self._writers.setdefault(path, header.writer), header.state
            except OSError:
                continue
            # It only grows, and a segment that is full may keep what it was then.
            state_of[writer] = max(state, state_of.get(writer, 0))
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
        shift_ns = self._shift_ns(node)
        pending = []
        for n in cursor.pending:
            (row,) = _calls(rows_at(path, n, 1))
            if row.status == INVOKED:
                pending.append(n)
            else:
                self._answered(row, node, shift_ns)
        recorded = rows_at(path, cursor.read, LOOK_ROWS)
        empty = np.flatnonzero(recorded["status"] == EMPTY)
        recorded = recorded[: empty[0]] if len(empty) else recorded
        for n, row in enumerate(_calls(recorded), cursor.read):
            self._begun(row, shift_ns)
            if row.status == INVOKED:
                pending.append(n)
            else:
                self._answered(row, node, shift_ns)
        cursor.pending = pending
        cursor.read += len(recorded)
        return len(recorded) == LOOK_ROWS

    def _begun(self, row: _RecordedCall, shift_ns: int) -> None:
        """A call was made, or a notice came."""
        self.ops += 1
        self._events.add(row.f, INVOKED, row.t_inv + shift_ns)
        if row.f in ENDS:
            self._current.end(row.attempt)
        elif row.f == CLOSED:
            self._current.close(row.process)

    def _answered(self, row: _RecordedCall, node: str, shift_ns: int) -> None:
        """A call has its outcome."""
        self._events.add(row.f, row.status, row.t_ret + shift_ns)
        if row.f in ACQUIRES and row.status == OK:
            since_ns = row.t_ret + shift_ns
            hold = Hold(process=row.process, node=node, attempt=row.attempt, since_ns=since_ns)
            self._current.grant(hold)


def _calls(recorded: npt.NDArray[np.void]) -> Iterator[_RecordedCall]:
    """What is needed of recorded rows, as Python's own numbers."""
    # An array of these fields alone has its rows as tuples in their order.
    return map(_RecordedCall._make, recorded[[*_RecordedCall._fields]].tolist())
