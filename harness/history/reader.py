"""Reads the segments of a run: headers, rows, and one merged history for the judge."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.harness.core.case import (
    MERGED_DTYPE,
    Column,
    Columns,
    History,
    Rows,
    among,
    by_column,
    room,
    stacked,
)
from holdfast.harness.core.clock_summary import ClockSummary
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import NO_TOKEN, ROW_BYTES, ROW_FIELDS, Op, Starved, Status
from holdfast.harness.history import host_clocks, packed_columns
from holdfast.harness.history.calls import narrowed
from holdfast.harness.recording import packed_format, starvation
from holdfast.harness.recording.segments import (
    HEADER_BYTES,
    MAGIC,
    META_AT,
    PACKED,
    ROWS_AT,
    SCHEMA,
    SEGMENT_ROWS,
    STAMPS_AT,
    STATE_AT,
)
from holdfast.harness.runs import files, journal
from holdfast.harness.runs.directory import RunDir

MOST_ROWS = 1 << 20
MOST_BYTES = HEADER_BYTES + MOST_ROWS * ROW_BYTES
"""Upper bound of a segment's size: its writer begins the next one long before."""
LAST_NS = 1 << 61
"""Larger than any clock value (73 years), and two such spans still fit 64 bits."""

ROW_DTYPE = np.dtype([*ROW_FIELDS])
assert ROW_DTYPE.itemsize == ROW_BYTES
SAYS_WHY = Op.LOST, Op.CLOSED
ASKS = Op.ACQUIRE, Op.TRY, Op.PROBE
_NAME = re.compile(r"(?!\.)[\w.+-]{1,200}")
"""Name of a writer; files beside the segments have it too."""


Recorded = npt.NDArray[np.void] | Mapping[str, Column]
"""Rows of one writer as it recorded them: of ROW_DTYPE, or by column if they were packed."""
Metas = Mapping[str, Mapping[str, Any]]
"""writer -> its description of itself"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """The header of a segment. `rows` is None while its writer has not closed it.

    stamps_ns   until when kernel timestamps count, as far as this segment says: see `newest`
    capacity    number of rows that fit; bytes: size of the file
    packed      whether it was when this was read; a closed one may be packed at any later moment
    """

    path: Path
    writer: str
    first_row: int
    state: int
    rows: int | None
    meta: Mapping[str, Json]
    stamps_ns: int = 0
    capacity: int = 0
    bytes: int = 0
    packed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """A merged history and its writers. nodes: process number -> node name.

    clocks    host -> summary of its clock; empty if all writers shared one
    starved   spans without CPU time, as wide as they can have been on the driver's clock
    error_ns  the largest proven error of a timestamp; every interval is already widened by it
    """

    history: History
    nodes: Mapping[int, str]
    states: Mapping[str, int]
    clocks: Mapping[str, ClockSummary] = field(default_factory=dict)
    error_ns: int = 0
    starved: Sequence[Starved] = ()


def read_header(path: Path) -> Header:
    """The header of one segment. UsageError if it is invalid, truncated, or of a newer version."""
    head, length = _head(path)
    if len(head) < HEADER_BYTES or not head.startswith(MAGIC):
        raise UsageError(
            f"{path}: not a Holdfast segment, or its head is damaged ({len(head)} bytes read);"
            " copy the run directory again"
        )
    schema, row_bytes, room, first = np.frombuffer(head, "<u4", 4, len(MAGIC)).tolist()
    if schema not in (SCHEMA, PACKED) or row_bytes != ROW_BYTES:
        raise UsageError(
            f"{path}: segment schema {schema} with {row_bytes} bytes a row, this version reads"
            f" {SCHEMA} and {PACKED} with {ROW_BYTES}; judge it with the version that wrote it, or"
            " a newer one"
        )
    used = int.from_bytes(head[ROWS_AT : ROWS_AT + 8], "little")
    try:
        meta = files.decoded(head[META_AT:].split(b"\0", 1)[0])
        writer = _described(meta)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}: the segment's description is damaged: {error}; copy the run directory again"
        ) from error
    if room > MOST_ROWS or length > HEADER_BYTES + room * ROW_BYTES:
        raise UsageError(
            f"{path}: {length} bytes with room for {room} rows, of {MOST_ROWS} at"
            " most; it is damaged: copy the run directory again"
        )
    # A few bytes can stand for as many rows as a writer puts into a segment, and for no more.
    if schema == PACKED and not 0 < used <= min(room, SEGMENT_ROWS) + 1:
        raise UsageError(
            f"{path}: {used - 1} packed rows with room for {room}, of {SEGMENT_ROWS} at most; it"
            " is damaged: copy the run directory again"
        )
    return Header(
        path=path,
        capacity=room,
        bytes=length,
        writer=writer,
        first_row=first,
        state=head[STATE_AT],
        rows=used - 1 if used else None,
        meta=meta,
        stamps_ns=int.from_bytes(head[STAMPS_AT : STAMPS_AT + 8], "little"),
        packed=schema == PACKED,
    )


def read_state(path: Path) -> int:
    """What the writer of a segment says of itself by now, without all else of its header."""
    head, _ = _head(path, META_AT)
    if len(head) < META_AT:
        raise UsageError(f"{path}: the segment was cut off to {len(head)} bytes")
    return head[STATE_AT]


def _described(meta: Mapping[str, object]) -> str:
    """The writer that a segment's description names; ValueError if it is invalid."""
    writer, processes = meta["writer"], meta.get("processes", [])
    if not isinstance(writer, str) or not _NAME.fullmatch(writer):
        raise ValueError(f"writer is {str(writer)[:60]!r}")
    if not isinstance(processes, list) or not all(map(files.number, processes)):
        raise ValueError(f"processes are {str(processes)[:60]!r}")
    return writer


def _head(path: Path, most: int = HEADER_BYTES) -> tuple[bytes, int]:
    """The first bytes of a segment, and the size of the file. UsageError if it is not a segment."""
    try:
        with files.opened(path.parent.parent, f"{path.parent.name}/{path.name}") as file:
            return os.pread(file, most, 0), os.fstat(file).st_size
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def block_at(path: Path, at: int, count: int) -> Recorded:
    """Up to `count` rows of a segment from row `at` on; fewer if it has fewer by now."""
    try:
        with files.opened(path.parent.parent, f"{path.parent.name}/{path.name}") as file:
            # The segment may have been packed since anything else of it was read: this file is
            # either the one or the other.
            head = os.pread(file, META_AT, 0)
            if not packed_format.is_packed(head):
                raw = os.pread(file, count * ROW_BYTES, HEADER_BYTES + at * ROW_BYTES)
                return np.frombuffer(raw[: len(raw) // ROW_BYTES * ROW_BYTES], ROW_DTYPE)
            return _unpacked(path, head, lambda place, most: os.pread(file, most, place), at, count)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def rows_at(path: Path, at: int, count: int) -> npt.NDArray[np.void]:
    """As `block_at`, as an array of ROW_DTYPE."""
    block = block_at(path, at, count)
    if isinstance(block, np.ndarray):
        return block
    rows = np.empty(len(block["t_inv"]), ROW_DTYPE)
    for name, column in block.items():
        rows[name] = column
    return rows


def _unpacked(
    path: Path, head: bytes, read: Callable[[int, int], bytes], at: int, count: int
) -> dict[str, Column]:
    """Rows of a packed segment, by column. UsageError if it is damaged."""
    try:
        rows = packed_format.held(head)
        if not 0 <= rows <= SEGMENT_ROWS:
            raise ValueError(f"{rows} rows, more than the limit of {SEGMENT_ROWS}")
        return packed_columns.columns(read, rows, at, count)
    except ValueError as error:
        raise UsageError(
            f"{path}: the packed segment is damaged: {error}; copy the run directory again"
        ) from error


def read_rows(header: Header) -> Recorded:
    """All rows of one segment, including those never begun (status EMPTY).

    Of a file that has grown since its header was read, only what it had then.
    """
    path = header.path
    name = f"{path.parent.name}/{path.name}"
    data = files.read(path.parent.parent, name, MOST_BYTES)
    if packed_format.is_packed(data):
        most = at_most(header)
        return _unpacked(path, data[:META_AT], lambda at, count: data[at : at + count], 0, most)
    raw = np.frombuffer(data, np.uint8)[HEADER_BYTES : header.bytes]
    if header.rows is not None and len(raw) < header.rows * ROW_BYTES:
        raise UsageError(
            f"{header.path}: {len(raw) // ROW_BYTES} of the {header.rows} rows that its writer"
            " recorded; copy the run directory again"
        )
    rows: npt.NDArray[np.void] = raw[: len(raw) // ROW_BYTES * ROW_BYTES].view(ROW_DTYPE)
    return rows


def load(directory: Path) -> Recording:
    """Merge all segments of a run in order of t_inv.

    If its writers were on several hosts (clocks.jsonl beside the directory), every interval is
    widened to the driver's clock. UsageError names the file and row of the first damage; nothing is
    repaired or written.
    """
    headers_of = by_writer(directory)
    if why := too_large(directory):
        raise UsageError(f"{why}; holdfast check judges it in parts")
    table = Strings()
    metas, states, problems = {}, {}, []
    # What is read goes straight to its place: parts that are joined later take as much once more.
    every = chain.from_iterable(headers_of.values())
    space, bounds = room(MERGED_DTYPE, sum(map(at_most, every))), [0]
    for number, (writer, headers) in enumerate(headers_of.items()):
        problems += gaps(writer, headers)
        numbers = table.add(read_strings(directory / f"{writer}.strings"))
        states[writer], stamps_ns = newest(headers)
        for header in headers:
            part = merge_form(header, read_rows(header), number, numbers)
            begin, end = bounds[-1], bounds[-1] + len(part)
            space[begin:end].fill(narrowed(part, stamps_ns))
            bounds.append(end)
        metas[writer] = headers[0].meta
    clocks = host_clocks.read(directory.parent / host_clocks.FILE)
    spans = starved(directory.parent, clocks)
    if clocks is None:
        whole = recording(space.shortened(bounds[-1]), table, metas, states, problems)
        return replace(whole, starved=spans)
    parts, summaries, problems = widened(
        [space[begin:end] for begin, end in pairwise(bounds)], metas, clocks, problems
    )
    return replace(
        recording(stacked(MERGED_DTYPE, parts), table, metas, states, problems),
        clocks=summaries,
        starved=spans,
        error_ns=max((one.error_ns for one in summaries.values()), default=0),
    )


def by_writer(directory: Path) -> dict[str, list[Header]]:
    """The segments of each writer, in order. UsageError if there are none, unless the run ended
    during its deployment, before any writer recorded anything."""
    headers_of: dict[str, list[Header]] = {}
    for path in segment_files(directory):
        header = read_header(path)
        headers_of.setdefault(header.writer, []).append(header)
    if not headers_of and not _ended_during_deployment(RunDir(directory.parent)):
        raise UsageError(f"{directory}: no *.seg files; expected a run directory of Holdfast")
    for headers in headers_of.values():
        headers.sort(key=lambda header: header.first_row)
    return headers_of


def _ended_during_deployment(run: RunDir) -> bool:
    """Whether a run was prepared and its workload never began."""
    prepared = files.is_file(run.path, run.manifest.name)
    return prepared and all(mark.mark != "start" for mark in journal.marks(run))


def newest(headers: Sequence[Header]) -> tuple[int, int]:
    """The state of a writer, and until when its kernel timestamps count. Both only grow, and a
    segment that its writer has closed keeps what they were then."""
    return max(one.state for one in headers), max(one.stamps_ns for one in headers)


def at_most(header: Header) -> int:
    """Number of rows that a segment can have, by its size; if it is packed, by its header."""
    if header.packed:
        return header.rows or 0
    return max(0, header.bytes - HEADER_BYTES) // ROW_BYTES


def starved(run_dir: Path, clocks: host_clocks.HostClocks | None) -> tuple[Starved, ...]:
    """The starved spans that every process recorded; none in a run of an older Holdfast."""
    spans = []
    for node in files.listed(run_dir, "logs"):
        name = f"logs/{node}/{starvation.FILE}"
        if not files.is_file(run_dir, name):
            continue
        with files.shaped(run_dir / name):
            for line in files.read(run_dir, name).split(b"\n")[:-1]:
                spans.append(_on_our_clock(starvation.of_row(files.row(line)), clocks))
    return tuple(sorted(spans, key=lambda one: (one.from_ns, one.to_ns, one.node)))


def _on_our_clock(one: Starved, clocks: host_clocks.HostClocks | None) -> Starved:
    """The span on the driver's clock: widened, so that it may allow too much, never too little."""
    if clocks is None or one.node == "driver":
        return one
    _, clock = clocks.of_node(one.node)
    return replace(
        one,
        from_ns=int(clock.earliest(np.array([one.from_ns]))[0]),
        to_ns=int(clock.latest(np.array([one.to_ns]))[0]),
    )


def widened(
    parts: Sequence[Columns],
    metas: Mapping[str, Mapping[str, Json]],
    clocks: host_clocks.HostClocks,
    problems: Sequence[str],
) -> tuple[list[Columns], dict[str, ClockSummary], list[str]]:
    """The same rows as intervals of the driver's clock, cut where a host's record is missing.

    Also returns the summary of each host's clock, and all problems.
    """
    writers, kept = list(metas), []
    stamps: dict[str, list[npt.NDArray[np.int64]]] = {host: [] for host in clocks.clocks}
    for rows in parts:
        rows = rows.copy()
        kept.append(rows)
        if not len(rows):
            continue
        writer = writers[int(rows["writer"][0])]
        host, clock = clocks.of_node(str(metas[writer].get("node", writer)))
        returned = rows["t_ret"] != 0
        stamps[host] += [rows["t_inv"].copy(), rows["t_ret"][returned]]
        rows["t_inv"] = clock.earliest(rows["t_inv"])
        rows["t_ret"][returned] = clock.latest(rows["t_ret"][returned])
    summaries, errors = {}, {}
    for host, clock in clocks.clocks.items():
        seen = np.concatenate([np.empty(0, np.int64), *stamps[host]])
        summaries[host] = clock.summary(seen)
        errors[host] = summaries[host].error_ns
    cut_ns = clocks.cut_ns()
    if cut_ns is not None:
        kept = [cut(rows, cut_ns) for rows in kept]
    return kept, summaries, [*problems, *clocks.problems(errors)]


def cut(rows: Rows, cut_ns: int) -> Columns:
    """What had been recorded by a time, as new rows: without later ones, and without later
    returns."""
    at_once = np.isin(rows["f"], (Op.LOST, Op.CLOSED, Op.WAITING)) & (rows["t_ret"] > cut_ns)
    kept: Columns = by_column(rows)[(rows["t_inv"] <= cut_ns) & ~at_once]
    without_return(kept, kept["t_ret"] > cut_ns)
    return kept


def without_return(rows: Rows, which: npt.NDArray[np.bool_]) -> None:
    """Makes these rows calls without a response, in place."""
    rows["status"][which] = Status.INVOKED
    for column in ("t_ret", "rx", "res", "err", "spent"):
        rows[column][which] = 0
    rows["token"][which & among(rows["f"], ASKS)] = NO_TOKEN


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """One writer's data in memory: `rows` packed as `operations.ROW_FORMAT`, and its strings."""

    meta: Mapping[str, Any]
    strings: Sequence[str]
    rows: bytes


def merge(writers: Sequence[Written]) -> Recording:
    """The same as `load` for writers that kept everything in memory. UsageError if damaged."""
    table = Strings()
    parts, metas = [], {}
    for number, written in enumerate(sorted(writers, key=lambda one: str(one.meta["writer"]))):
        writer = str(written.meta["writer"])
        metas[writer] = written.meta
        header = Header(
            path=Path(writer), writer=writer, first_row=0, state=0, rows=None, meta=written.meta
        )
        rows = np.frombuffer(written.rows, ROW_DTYPE)
        parts.append(merge_form(header, rows, number, table.add(written.strings[1:])))
    return recording(stacked(MERGED_DTYPE, parts), table, metas, dict.fromkeys(metas, 0), [])


def recording(
    rows: Columns,
    table: Strings,
    metas: Metas,
    states: Mapping[str, int],
    problems: Sequence[str],
) -> Recording:
    """The history of all writers, in order of t_inv. Takes over the rows, which are in order of
    writer and row."""
    # A stable sort keeps the order of writer and row for equal times.
    order = np.argsort(rows["t_inv"], kind="stable")
    history = History(
        rows=rows.sorted_by(order),
        strings=table.strings,
        writers=tuple(metas),
        problems=tuple(problems),
    )
    return Recording(history=history, nodes=nodes_of(metas), states=states)


def nodes_of(metas: Metas) -> dict[int, str]:
    """The node of each process, by the descriptions of the writers."""
    return {
        int(process): str(meta.get("node", writer))
        for writer, meta in metas.items()
        for process in meta.get("processes", ())
    }


class Strings:
    """One table of strings for the whole run."""

    def __init__(self) -> None:
        self.strings = [""]
        self._known = {"": 0}

    def add(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Add a writer's strings; the run's number of each, by the writer's own number."""
        numbers = [0]
        for text in texts:
            if text not in self._known:
                self._known[text] = len(self.strings)
                self.strings.append(text)
            numbers.append(self._known[text])
        return np.array(numbers, np.int64)


def read_strings(path: Path) -> list[str]:
    try:
        data = files.read(path.parent.parent, f"{path.parent.name}/{path.name}")
    except FileNotFoundError:
        return []
    texts = []
    for n, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            text = files.decoded(line)
        except ValueError as error:
            raise UsageError(f"{path}, line {n}: not a JSON string: {error}") from error
        texts.append(str(text))
    return texts


def gaps(writer: str, headers: Sequence[Header]) -> list[str]:
    expected = 0
    for header in headers:
        if header.first_row != expected:
            return [f"writer {writer}: rows {expected} to {header.first_row} are missing"]
        expected = header.first_row + header.capacity
    return []


def segment_files(directory: Path) -> list[Path]:
    """The segments in the folder of a history, by name."""
    names = files.listed(directory.parent, directory.name)
    return [directory / name for name in names if name.endswith(".seg")]


def too_large(directory: Path) -> str:
    """Why a history does not fit in the memory of this machine, "" if it does."""
    headers_of = by_writer(directory)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    rows = sum(at_most(header) for headers in headers_of.values() for header in headers)
    total = rows * ROW_BYTES
    # The merged history, its order and the checkers' columns need a few times as much.
    if total <= memory // 4:
        return ""
    return (
        f"{directory}: its rows take {total >> 20} MiB, more than a quarter of this"
        f" machine's {memory >> 20} MiB of memory"
    )


def merge_form(
    header: Header,
    rows: Recorded,
    writer: int,
    numbers: npt.NDArray[np.int64],
    skipped: int = 0,
) -> Columns:
    """Rows of one segment with the run's string numbers, by column, checked for damage. Takes over
    columns that were unpacked.

    skipped: number of rows of the segment that were read before; `header.first_row` counts them.
    """
    begun = rows["status"] != Status.EMPTY
    whole = bool(begun.all())
    kept = np.arange(len(begun)) if whole else np.flatnonzero(begun)
    columns = {name: rows[name] if whole else rows[name][kept] for name, _ in ROW_FIELDS}
    if whole and isinstance(rows, np.ndarray):
        columns = {name: column.copy() for name, column in columns.items()}
    explained = among(columns["f"], SAYS_WHY)
    damage = _damaged(columns, explained, len(numbers))
    if damage.any():
        at = int(kept[np.argmax(damage)]) + skipped
        place = "" if header.packed else f" (byte {HEADER_BYTES + at * ROW_BYTES})"
        raise UsageError(f"{header.path}: row {at}{place} is damaged; copy the run directory again")
    # A segment numbers its texts by itself: its text 2 may be the run's text 17, numbers[2].
    for name in ("key", "err"):
        columns[name] = numbers.astype(MERGED_DTYPE[name])[columns[name]]
    columns["res"][explained] = numbers[columns["res"][explained]]
    columns["writer"] = np.full(len(kept), writer, MERGED_DTYPE["writer"])
    columns["row"] = (kept + header.first_row).astype(MERGED_DTYPE["row"])
    return Columns(MERGED_DTYPE, columns)


def _damaged(
    columns: Mapping[str, Column], told: npt.NDArray[np.bool_], texts: int
) -> npt.NDArray[np.bool_]:
    """Which rows no writer can have written. told: rows whose `res` is a text; texts: how many."""
    inv, ret, status, kind = (columns[name] for name in ("t_inv", "t_ret", "status", "f"))
    damage: npt.NDArray[np.bool_] = (status > max(Status)) | ~among(kind, Op)
    # Every acquire begins an attempt: see `COLUMNS`.
    damage |= among(kind, ASKS) & (columns["attempt"] <= 0)
    damage |= (inv < 0) | (inv >= LAST_NS) | (ret >= LAST_NS)
    damage |= (status > Status.INVOKED) & (ret < inv)
    damage |= (columns["key"] >= texts) | (columns["err"] >= texts)
    if told.any():
        res = columns["res"]
        damage |= told & ((res < 0) | (res >= texts))
    return damage
