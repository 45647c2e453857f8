"""The recorder: one writer, one row per op, in a memory-mapped file or in memory alone.

The kernel keeps what was stored into the map when the writer is killed, so no acknowledged event
is lost at SIGKILL. The status byte is stored last: a row is either whole or not there, and an op
whose writer died stays INVOKED, which is what "unknown" means. Standard library only.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime_ns

from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.operations import (
    CAME,
    LEFT,
    LONGEST_STAMP,
    NO_TOKEN,
    ROW_BYTES,
    ROW_FORMAT,
    Op,
    Stamped,
    Status,
)
from holdfast.harness.recording import full_disk

MAGIC = b"HOLDFAST"
SCHEMA, PACKED = 1, 2
"""Of a segment as its writer has it, and of one that was packed: see `recording.packed_format`."""
HEADER_BYTES = 4096
SCHEMA_AT = 8
STATE_AT = 24
ROWS_AT = 32
STAMPS_AT = 40
META_AT = 64
SEGMENT_ROWS = 1 << 15
LONGEST_STRING = 4096
HOST_CLOCK = partial(clock_gettime_ns, CLOCK_BOOTTIME)
"""`core.clock.now_ns` without a Python frame."""

OPENED, READY, IDLE, DONE, DIED_ON_PURPOSE = 0, 1, 2, 3, 4
"""States of a writer in its header: opened its file; ready; finished its work; closed cleanly;
exited because its workload requires an owner that dies."""

_HEAD = struct.Struct("<8sIIII")
_CALL_EDGE = struct.Struct("<q8xqqq8xqq8xII4xIBxBB4x")
"""The columns that are known at the call edge, in the order of events.ROW_FORMAT; the rest is 0."""
assert _CALL_EDGE.size == struct.calcsize(ROW_FORMAT) == ROW_BYTES
_INVOKED = int(Status.INVOKED)
_RET, _TOKEN, _RES, _TX, _RX, _ERR, _FLAGS, _STATUS, _SPENT = 1, 3, 5, 16, 17, 20, 89, 91, 23
_ANSWERED = (Status.OK, Status.NOT_OWNER)
"""Outcomes that only the service can have decided. Others may have arisen on the client's side."""
_WORDS = ROW_BYTES // 8
_SHARED_AND_PRESENT = mmap.MAP_SHARED | mmap.MAP_POPULATE


def segment_bytes() -> int:
    """Size of a file as its writer opens it: allocated before the first row."""
    return HEADER_BYTES + SEGMENT_ROWS * ROW_BYTES


def segment_path(directory: Path, writer: str, part: int) -> Path:
    """The path of the part-th segment of a writer: `c1.seg`, `c1+1.seg`, `c1+2.seg` ..."""
    return directory / (f"{writer}.seg" if part == 0 else f"{writer}+{part}.seg")


def write_closed(
    directory: Path, meta: Mapping[str, object], strings: Sequence[str], rows: bytes
) -> None:
    """Writes the segments of a writer that kept its rows in memory, closed.

    meta["writer"] names it; `strings` begin with the empty one; `rows` are packed as
    `events.ROW_FORMAT` has them.
    """
    writer = str(meta["writer"])
    lines = b"".join(json.dumps(text).encode() + b"\n" for text in strings[1:])
    with full_disk.naming(directory / f"{writer}.strings"):
        (directory / f"{writer}.strings").write_bytes(lines)
    described = json.dumps(dict(meta)).encode()
    part_bytes = SEGMENT_ROWS * ROW_BYTES
    for part in range(max(1, -(-len(rows) // part_bytes))):
        kept = rows[part * part_bytes : (part + 1) * part_bytes]
        head = bytearray(HEADER_BYTES)
        _HEAD.pack_into(head, 0, MAGIC, SCHEMA, ROW_BYTES, SEGMENT_ROWS, part * SEGMENT_ROWS)
        head[STATE_AT] = DONE
        struct.pack_into("<Q", head, ROWS_AT, len(kept) // ROW_BYTES + 1)
        head[META_AT : META_AT + len(described)] = described
        path = segment_path(directory, writer, part)
        with full_disk.naming(path):
            path.write_bytes(bytes(head) + kept)


class _Segment:
    """Preallocated rows, in a file or in memory, and the three views through which they are set."""

    __slots__ = ("_map", "_path", "first_row", "halves", "rows", "words")

    def __init__(self, path: Path | None, first_row: int, meta: bytes) -> None:
        size = segment_bytes()
        self._path = path
        self.first_row = first_row
        if path is None:
            # Pages come as they are written, and small ones: most simulated writers fill one or
            # two, and need no huge page each where the kernel gives them to all.
            self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with suppress(OSError):
                self._map.madvise(mmap.MADV_NOHUGEPAGE)
        else:
            self._open(path, size, meta)
        self.rows = memoryview(self._map)[HEADER_BYTES:]
        self.words = self.rows.cast("q")
        self.halves = self.rows.cast("I")

    def _open(self, path: Path, size: int, meta: bytes) -> None:
        fresh = path.with_suffix(".new")
        try:
            with fresh.open("x+b") as file:
                # A hole that the disk cannot fill would kill the writer by SIGBUS: allocate now.
                os.posix_fallocate(file.fileno(), 0, size)
                # Pages are made present and writable now: else the first op on each is slower.
                self._map = mmap.mmap(file.fileno(), size, flags=_SHARED_AND_PRESENT)
                for page in range(0, size, mmap.PAGESIZE):
                    self._map[page] = 0
        except OSError as error:
            raise EnvironmentFailed(f"{path}: recording failed: {error}") from error
        _HEAD.pack_into(self._map, 0, MAGIC, SCHEMA, ROW_BYTES, SEGMENT_ROWS, self.first_row)
        self._map[META_AT : META_AT + len(meta)] = meta
        # Readers read while we write: the file gets its name when its header is complete.
        fresh.replace(path)

    def set_state(self, state: int) -> None:
        self._map[STATE_AT] = state

    def set_stamps(self, until_ns: int) -> None:
        struct.pack_into("<q", self._map, STAMPS_AT, until_ns)

    def final(self, stamped_ns: int) -> bool:
        """Whether nothing of a full segment will change: all calls have returned, and no kernel
        timestamp in it may still turn out to be invalid. stamped_ns: those before are valid."""
        statuses = bytes(self.rows[_STATUS::ROW_BYTES])
        if bytes((Status.EMPTY,)) in statuses or bytes((_INVOKED,)) in statuses:
            return False
        stamped = any(bytes(self.rows[_FLAGS::ROW_BYTES]))
        return not stamped or max(self.words[_RET::_WORDS]) < stamped_ns

    def close(self, used: int) -> None:
        for view in (self.words, self.halves, self.rows):
            view.release()
        # First truncate, then mark: a writer killed in between leaves an open file, not a wrong
        # one.
        if self._path is not None:
            os.truncate(self._path, HEADER_BYTES + used * ROW_BYTES)
        struct.pack_into("<Q", self._map, ROWS_AT, used + 1)
        self._map.close()


class Recorder:
    """Appends rows for one writer. Threads may share it; processes may not.

    directory  of its files; None keeps all rows in memory
    meta       stored as JSON in the header: node and logical clients
    now        the clock of the run, ns
    """

    __slots__ = (
        "_closed",
        "_directory",
        "_growing",
        "_last",
        "_meta",
        "_now",
        "_numbers",
        "_parts",
        "_stamped_ns",
        "_state",
        "_strings",
        "_text",
        "_writer",
    )

    def __init__(
        self,
        directory: Path | None,
        writer: str,
        meta: Mapping[str, object],
        now: Callable[[], int] = HOST_CLOCK,
    ) -> None:
        self._directory = directory
        self._writer = writer
        self._now = now
        self._meta = json.dumps({"writer": writer, **meta}).encode()
        if len(self._meta) > HEADER_BYTES - META_AT - 1:
            raise EnvironmentFailed(f"recorder {writer}: {len(self._meta)} bytes of metadata")
        self._numbers = itertools.count()
        self._strings: dict[str, int] = {"": 0}
        self._text = -1
        if directory is not None:
            path = directory / f"{writer}.strings"
            self._text = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._state = OPENED
        self._stamped_ns = 0
        self._growing = threading.Lock()
        self._parts: dict[int, _Segment] = {}
        self._closed: set[int] = set()
        self._last = self._extend(0)

    def intern(self, text: str) -> int:
        """The number of a string, written to the strings file before any row refers to it."""
        known = self._strings.get(text)
        if known is None:
            if self._text >= 0:
                self._append(json.dumps(text[:LONGEST_STRING]).encode() + b"\n")
            known = self._strings[text] = len(self._strings)
        return known

    def _append(self, line: bytes) -> None:
        try:
            full_disk.append_whole(self._text, line)
        except OSError as error:
            raise EnvironmentFailed(f"{self._writer}.strings: recording failed: {error}") from error

    def invoke(
        self,
        f: Op,
        process: int,
        key: int,
        *,
        attempt: int = 0,
        token: int = NO_TOKEN,
        arg: int = 0,
        aux: int = 0,
        op: int = 0,
        mode: int = 0,
        late: int = 0,
    ) -> int:
        """Stores the call edge, timestamped as late as possible; returns the row number."""
        number = next(self._numbers)
        segment = self._last
        at = number - segment.first_row
        if not 0 <= at < SEGMENT_ROWS:
            segment, at = self._place(number)
        _CALL_EDGE.pack_into(
            segment.rows,
            at * ROW_BYTES,
            self._now(),
            attempt,
            token,
            arg,
            aux,
            op,
            process,
            key,
            late,
            f,
            mode,
            _INVOKED,
        )
        return number

    def complete(
        self,
        number: int,
        status: Status,
        *,
        token: int | None = None,
        res: int = 0,
        err: int = 0,
        spent: int = 0,
        stamped: Stamped | None = None,
    ) -> int:
        """Stores the return edge; the status byte makes it count. Returns its time."""
        t_ret = self._now()
        segment = self._last
        at = number - segment.first_row
        if not 0 <= at < SEGMENT_ROWS:
            segment, at = self._place(number)
        word = at * _WORDS
        words = segment.words
        words[word + _RET] = t_ret
        if token is not None:
            words[word + _TOKEN] = token
        if res:
            words[word + _RES] = res
        if err:
            segment.halves[2 * word + _ERR] = err
        if spent:
            segment.halves[2 * word + _SPENT] = spent
        if stamped is not None:
            _narrow(segment, at, stamped(words[word], t_ret), status)
        segment.rows[at * ROW_BYTES + _STATUS] = status
        return t_ret

    def stamps_good(self, until_ns: int) -> None:
        """Kernel timestamps count in rows that ended by then."""
        with self._growing:
            self._stamped_ns = until_ns
            for segment in self._parts.values():
                segment.set_stamps(until_ns)

    def drop_stamps(self, since_ns: int) -> None:
        """Kernel timestamps do not count in rows that ended since then, as far as written."""
        with self._growing:
            for segment in self._parts.values():
                for at in range(SEGMENT_ROWS):
                    if segment.words[at * _WORDS + _RET] >= since_ns:
                        segment.rows[at * ROW_BYTES + _FLAGS] = 0

    def tell(self, state: int) -> None:
        """Sets the state of this writer in the header, where the driver reads it."""
        with self._growing:
            self._state = state
            for segment in self._parts.values():
                segment.set_state(state)

    def strings(self) -> list[str]:
        """All strings so far, by number."""
        return [text[:LONGEST_STRING] for text in self._strings]

    def rows(self, count: int) -> bytes:
        """The first `count` rows, as `operations.ROW_FORMAT` has them."""
        parts = [
            segment.rows[: max(0, count - segment.first_row) * ROW_BYTES]
            for segment in self._parts.values()
        ]
        return b"".join(parts)

    def close(self) -> None:
        """Truncates the file to its rows and records their number, to detect later truncation."""
        total = next(self._numbers)
        for part, segment in self._parts.items():
            segment.close(max(0, min(SEGMENT_ROWS, total - part * SEGMENT_ROWS)))
        os.close(self._text)

    def _place(self, number: int) -> tuple[_Segment, int]:
        """The segment of a row that is not in the last one, or is the first of a new one."""
        part, at = divmod(number, SEGMENT_ROWS)
        return self._parts.get(part) or self._extend(part), at

    def _extend(self, part: int) -> _Segment:
        with self._growing:
            if part in self._parts:
                return self._parts[part]
            assert part not in self._closed, "a row was completed a second time"
            if self._directory is not None:
                self._close_full()
            path = self._directory and segment_path(self._directory, self._writer, part)
            segment = _Segment(path, part * SEGMENT_ROWS, self._meta)
            segment.set_state(self._state)
            segment.set_stamps(self._stamped_ns)
            self._parts[part] = segment
            self._last = segment
            return segment

    def _close_full(self) -> None:
        """Closes the segments that nothing will change, so that they may be packed: the disk keeps
        a file that was replaced as long as it is mapped."""
        for part, segment in list(self._parts.items()):
            if segment.final(self._stamped_ns):
                segment.close(SEGMENT_ROWS)
                del self._parts[part]
                self._closed.add(part)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _narrow(segment: _Segment, at: int, edges: tuple[int, int], status: Status) -> None:
    """Stores the sending and the response's arrival, as distances from the call's edges."""
    left, came = edges
    half, word, flags = 2 * at * _WORDS, at * _WORDS, 0
    if left:
        segment.halves[half + _TX] = min(left - segment.words[word], LONGEST_STAMP)
        flags = LEFT
    if came and status in _ANSWERED:
        segment.halves[half + _RX] = min(segment.words[word + _RET] - came, LONGEST_STAMP)
        flags |= CAME
    segment.rows[at * ROW_BYTES + _FLAGS] = flags
