"""Reads the recorded rows of a run, with a decoder independent of the judge's.

Rows of all writers are concatenated, one array of integers per column; a row is named by its writer
and its number in that writer's segments. Standard library only.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.harness.core.errors import UsageError
from holdfast.harness.runs import files
from holdfast.harness.verification.packed_rows import MOST_ROWS, rows_of

HEADER, ROW, MOST_BYTES = 4096, 96, 256 << 20
PACKED = b"\2\0\0\0\x60\0\0\0"
SCHEMAS = (b"\1\0\0\0\x60\0\0\0", PACKED)
FORMAT = "<qqqqqqqqIIIIIIBBBBI"
FIELDS: dict[str, tuple[str, int]] = {
    **{
        name: ("q", n)
        for n, name in enumerate(("t_inv", "t_ret", "attempt", "token", "arg", "res", "aux", "op"))
    },
    **{name: ("I", 16 + n) for n, name in enumerate(("tx", "rx", "process", "key", "err", "late"))},
    **{name: ("B", 88 + n) for n, name in enumerate(("f", "flags", "mode", "status"))},
    "spent": ("I", 23),
}
"""Column -> type of its numbers and the offset of the first one, in such numbers."""
LOST, CLOSED, WAITING, ASKS = 6, 7, 5, (1, 2, 14)
SERVED = (12, 13)
SAYS_WHY = (LOST, CLOSED)
"""Kinds of row whose `res` is the number of a string."""


class Damaged(UsageError):
    """The files of a run are damaged."""


class Starved(NamedTuple):
    """A span in which a process ("delay") or all of its host ("pressure") got no CPU time."""

    node: str
    kind: str
    from_ns: int
    to_ns: int


class Writer(NamedTuple):
    """One writer: rows as recorded, without gaps, and its strings, of which the first is empty."""

    name: str
    node: str
    processes: Sequence[int]
    rows: bytes | bytearray
    strings: Sequence[str]
    stamps_ns: int = 0


class Rows:
    """All rows of a run. `base` and `count`: where the rows of each writer begin, and how many.

    widen   for a run on several hosts: (node, inv, ret) -> the same as intervals of one clock
    """

    def __init__(
        self,
        writers: Iterable[Writer],
        widen: Callable[[str, array[int], array[int]], None] | None = None,
    ) -> None:
        self.writers = sorted(writers, key=lambda writer: writer.name + ".seg")
        self.strings: list[str] = [""]
        self.base: dict[str, int] = {}
        self.nodes: dict[int, str] = {}
        self._numbers: list[list[int]] = []
        self._both_edges: dict[str, tuple[array[int], array[int]]] = {}
        self._statuses: dict[str, bytes] = {}
        self._widen = widen
        known, at = {"": 0}, 0
        for writer in self.writers:
            self.base[writer.name] = at
            at += len(writer.rows) // ROW
            self.nodes |= dict.fromkeys(writer.processes, writer.node)
            for text in writer.strings:
                if text not in known:
                    known[text] = len(self.strings)
                    self.strings.append(text)
            self._numbers.append([known[text] for text in writer.strings])
        self.count = at

    def __getattr__(self, name: str) -> Sequence[int]:
        """A column, built on first use: `bytes` if its numbers are below 256, else an array."""
        if name not in FIELDS:
            raise AttributeError(name)
        made = array(FIELDS[name][0])
        try:
            if FIELDS[name][0] == "B":
                column: Sequence[int] = b"".join(
                    _bytes(one, name, self._torn(one)) for one in self.writers
                )
            else:
                for writer, numbers in zip(self.writers, self._numbers, strict=True):
                    made += self._column(writer, numbers, name)
                column = made
        except IndexError:
            raise Damaged(f"a row of writer {writer.name} names no string of it") from None
        setattr(self, name, column)
        return column

    def _column(self, writer: Writer, numbers: Sequence[int], name: str) -> array[int]:
        if name in ("t_inv", "t_ret"):
            return self._edges(writer)[name == "t_ret"]
        torn = self._torn(writer)
        found = _recorded(writer, name, torn)
        if name in ("key", "err"):
            if numbers == list(range(len(numbers))) and max(found, default=0) < len(numbers):
                return found  # the writer has the same numbers for the same strings
            return array(FIELDS[name][0], map(numbers.__getitem__, found))
        if name == "res":
            for at in _places(_bytes(writer, "f", torn), SAYS_WHY):
                found[at] = numbers[found[at]]
        return found

    def _edges(self, writer: Writer) -> tuple[array[int], array[int]]:
        """Calls and returns, narrowed by the kernel's timestamps if those count and fit."""
        if writer.name not in self._both_edges:
            torn = self._torn(writer)
            inv, ret = _recorded(writer, "t_inv", torn), _recorded(writer, "t_ret", torn)
            flags = _plain_bytes(writer, "flags")
            narrowed = [at for at, flag in enumerate(flags) if flag & 3] if any(flags) else ()
            tx, rx = _plain(writer, "tx"), _plain(writer, "rx")
            for at in narrowed:
                if 0 < ret[at] <= writer.stamps_ns:
                    left = tx[at] if flags[at] & 1 else 0
                    came = rx[at] if flags[at] & 2 else 0
                    if ret[at] - inv[at] >= left + came:
                        inv[at] += left
                        ret[at] -= came
            if self._widen is not None:
                self._widen(writer.node, inv, ret)
            self._both_edges[writer.name] = inv, ret
        return self._both_edges[writer.name]

    def _torn(self, writer: Writer) -> bytes:
        """The statuses of a writer if one of its rows was never whole (status 0), else nothing."""
        if writer.name not in self._statuses:
            status = _plain_bytes(writer, "status")
            self._statuses[writer.name] = status if 0 in status else b""
        return self._statuses[writer.name]

    @property
    def first_ns(self) -> int:
        """The earliest call."""
        edges = zip(self.t_inv, self.status, strict=True)
        return min((called for called, status in edges if status), default=0)

    def of_kinds(self, *kinds: int) -> Iterable[int]:
        """The indices of all rows of some kinds, in order; fast for a million rows."""
        return _places(bytes(self.f), kinds)

    def answered(self, kinds: Sequence[int], statuses: Sequence[int]) -> Iterable[int]:
        """The indices of all rows of some kinds with one of some statuses, in order."""
        return compress(self.of_kinds(*kinds), _marked(self.statuses(*kinds), statuses))

    def statuses(self, *kinds: int) -> bytes:
        """The statuses of all rows of some kinds, in order."""
        return bytes(compress(self.status, _marked(bytes(self.f), kinds)))

    def place(self, writer: str, row: int) -> int:
        """The index of a row in the lists; KeyError if there is no such writer or row."""
        at = self.base[writer] + row
        writers = [one for one in self.writers if one.name == writer]
        if not 0 <= row < len(writers[0].rows) // ROW:
            raise KeyError(row)
        return at

    def named(self, at: int) -> tuple[str, int]:
        """The writer of a row and its number there."""
        # A writer without rows begins where the next one does, and has none to name.
        filled = (one.name for one in self.writers if len(one.rows))
        name = max((self.base[name], name) for name in filled if self.base[name] <= at)[1]
        return name, at - self.base[name]


def _plain(writer: Writer, name: str) -> array[int]:
    kind, first = FIELDS[name]
    numbers: memoryview[int] = memoryview(writer.rows).cast(kind)  # type: ignore[call-overload]
    return array(kind, numbers[first :: ROW // numbers.itemsize].tobytes())


def _plain_bytes(writer: Writer, name: str) -> bytes:
    return bytes(writer.rows[FIELDS[name][1] :: ROW])


def _bytes(writer: Writer, name: str, torn: bytes) -> bytes:
    """As `_recorded`, for a column of numbers below 256."""
    found = _plain_bytes(writer, name)
    return bytes(n if said else 0 for n, said in zip(found, torn, strict=True)) if torn else found


def _marked(kinds: bytes, wanted: Sequence[int]) -> bytes:
    """1 for each byte with one of some values, 0 for the others."""
    return kinds.translate(bytes(f in wanted for f in range(256)))


def _places(kinds: bytes, wanted: Sequence[int]) -> Iterable[int]:
    """Indices of the bytes with one of some values."""
    return compress(range(len(kinds)), _marked(kinds, wanted))


def _recorded(writer: Writer, name: str, torn: bytes) -> array[int]:
    """A column with 0 for rows that were never completely written, whatever they contain."""
    found = _plain(writer, name)
    for at in _places(torn, (0,)):
        found[at] = 0
    return found


class _Segment(NamedTuple):
    """One segment as its file has it. packed: its number of rows if it is packed, else -1."""

    name: str
    meta: Mapping[str, Any]
    data: bytes
    packed: int
    stamps_ns: int

    def rows(self) -> memoryview | bytearray:
        if self.packed < 0:
            whole = (len(self.data) - HEADER) // ROW * ROW
            return memoryview(self.data)[HEADER : HEADER + whole]
        try:
            return rows_of(self.data, self.packed)
        except ValueError as error:
            raise Damaged(f"history/{self.name}: {error}") from error


def of_directory(run: Path) -> list[Writer]:
    """The writers of a run directory. Damaged or UsageError if it is none."""
    parts: dict[str, dict[int, _Segment]] = {}
    unpacked = 0
    for name in files.listed(run, "history"):
        if not name.endswith(".seg"):
            continue
        one = _segment(run, name)
        first = int.from_bytes(one.data[20:24], "little")
        parts.setdefault(str(one.meta["writer"]), {})[first] = one
        unpacked += max(0, one.packed) * ROW
        if unpacked > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4:
            raise Damaged("history: its packed rows need more than a quarter of the memory")
    # One writer's segments are dropped before those of the next one are joined.
    return [_writer(run, name, parts.pop(name)) for name in list(parts)]


def _segment(run: Path, name: str) -> _Segment:
    data = files.read(run, f"history/{name}", MOST_BYTES)
    if len(data) < HEADER or data[:8] != b"HOLDFAST" or data[8:16] not in SCHEMAS:
        raise Damaged(f"history/{name}: not a segment")
    used = int.from_bytes(data[32:40], "little")
    packed = used - 1 if data[8:16] == PACKED else -1
    if data[8:16] == PACKED and not 0 <= packed <= MOST_ROWS:
        raise Damaged(f"history/{name}: {packed} packed rows, of {MOST_ROWS} at most")
    if packed < 0 and used and (used - 1) * ROW > (len(data) - HEADER) // ROW * ROW:
        raise Damaged(f"history/{name}: rows are missing")
    meta = files.table(data[64:HEADER].split(b"\0", 1)[0])
    return _Segment(name, meta, data, packed, int.from_bytes(data[40:48], "little"))


def _writer(run: Path, name: str, parts: Mapping[int, _Segment]) -> Writer:
    """One writer, from its segments, padded up to where the next one begins."""
    firsts = sorted(parts)
    rows = bytearray()
    for first in firsts:
        if not len(rows) <= first * ROW <= 4 * MOST_BYTES:
            raise Damaged(f"writer {name}: segments overlap")
        rows += bytes(first * ROW - len(rows)) + parts[first].rows()
    meta = parts[firsts[0]].meta
    try:
        lines = files.read(run, f"history/{name}.strings").split(b"\n")[:-1]
    except FileNotFoundError:
        lines = []
    texts = [str(files.decoded(line)) for line in lines]
    return Writer(
        name,
        str(meta.get("node", name)),
        [int(process) for process in meta.get("processes", ())],
        rows,
        ["", *texts],
        max(part.stamps_ns for part in parts.values()),
    )


def lines(run: Path, name: str) -> list[dict[str, Any]]:
    """The complete lines of a file of a run, each an object; none if there is no such file."""
    try:
        return [files.row(line) for line in files.read(run, name).split(b"\n")[:-1]]
    except FileNotFoundError:
        return []


def starved_spans(
    run: Path, widen: Callable[[str, int, int], tuple[int, int]] | None = None
) -> list[Starved]:
    """Spans in which a process or its host got no CPU time, as wide as they can have been.

    widen   for a run on several hosts: a node's span on the driver's clock
    """
    found = []
    for node in files.listed(run, "logs"):
        name = f"logs/{node}/starved.log"
        for row in lines(run, name) if files.is_file(run, name) else ():
            span = int(row["from_ns"]), int(row["to_ns"])
            if widen is not None and row["node"] != "driver":
                span = widen(str(row["node"]), *span)
            found.append(Starved(str(row["node"]), str(row["kind"]), *span))
    return found
