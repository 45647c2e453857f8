"""Reads the tables that `holdfast export` writes, CSV or Parquet: a row for every operation.

Required columns: f, status, process, key, t_inv, t_ret, attempt, token; mode, err and arg (the
lease) are optional, others ignored. Rows that are not lock operations are left out. A call that
overlaps another of its process gets its own process number, the same as in the other exports.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import numpy as np

from holdfast.harness.core import extras
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import NO_TOKEN, Mode, Status
from holdfast.harness.foreign.event_columns import Codes, Odd
from holdfast.harness.foreign.event_fields import LARGEST
from holdfast.harness.foreign.op_columns import Ints, OpColumns, Rows
from holdfast.harness.foreign.operations import Event, Malformed
from holdfast.harness.foreign.table_columns import (
    OPS,
    STATUSES,
    TableRows,
    in_range,
    operations,
    whole,
)
from holdfast.harness.foreign.write import FS, KINDS, LEASED

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch
    from pyarrow.parquet import FileMetaData

WANTED = ("f", "status", "process", "key", "t_inv", "t_ret", "attempt", "token")
TEXTS = ("f", "status", "key", "mode", "err")
BATCH, LONGEST = 1 << 14, 1 << 14
ROW_BYTES = 2048
"""Approximate memory per row until its events are sorted."""
NUMBERS = ("process", "t_inv", "t_ret", "attempt", "token", "arg")
_WHOLE = re.compile(r"-?[0-9]{1,19}\Z")

Row = Mapping[str, object]
W = TypeVar("W")


def csv_events(file: BinaryIO) -> Iterator[Event]:
    """The events of a CSV table with the column names in its first line."""
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    reader = csv.DictReader(text, strict=True)
    rows = list[tuple[int, Row]]()
    try:
        _complete(reader.fieldnames or ())
        before = reader.line_num
        for row in reader:
            if None in row or None in row.values():
                raise Malformed(before + 1, "wrong number of values: truncated?")
            rows.append((before + 1, row))
            before = reader.line_num
    except UnicodeDecodeError as error:
        raise Malformed(reader.line_num + 1, f"not UTF-8: {error.reason}") from error
    except csv.Error as error:
        # The line of the DictReader itself is that of its last whole row.
        raise Malformed(reader.reader.line_num, f"invalid CSV: {error}") from error
    finally:
        text.detach()
    return _events(rows)


def csv_columns(file: BinaryIO) -> OpColumns:
    """The operations of a CSV table at once. Odd."""
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    reader = csv.reader(text, strict=True)
    try:
        names = next(reader, [])
        if len(set(names)) < len(names) or not set(WANTED) <= set(names):
            raise Odd("columns that are missing or there twice")
        columns = _CsvColumns(names)
        before = reader.line_num
        while rows := [(row, reader.line_num) for row in islice(reader, BATCH)]:
            columns.add([row for row, _ in rows], [before, *(line for _, line in rows)][:-1])
            before = rows[-1][1]
        return operations(columns.rows())
    except (csv.Error, UnicodeDecodeError) as error:
        raise Odd("no CSV") from error
    finally:
        text.detach()


class _CsvColumns:
    """The wanted columns of a CSV table, batch by batch."""

    def __init__(self, names: Sequence[str]) -> None:
        self._length = len(names)
        self._place = {name: at for at, name in enumerate(names)}
        self._lines = list[Rows]()
        self._codes = {name: Codes(str) for name in ("f", "status", "key", "mode")}
        self._texts: dict[str, list[Rows]] = {n: [] for n in self._codes if n in self._place}
        self._numbers: dict[str, list[Ints]] = {n: [] for n in NUMBERS if n in self._place}

    def add(self, rows: Sequence[Sequence[str]], after: Sequence[int]) -> None:
        """Take the next rows; after: the last line before each. Odd."""
        if any(len(row) != self._length for row in rows):
            raise Odd("a row of another length")
        columns = list(zip(*rows, strict=True))
        self._lines.append(np.array(after, np.int32) + np.int32(1))
        for name, parts in self._texts.items():
            parts.append(self._codes[name].column(columns[self._place[name]]))
        for name, numbers in self._numbers.items():
            column = columns[self._place[name]]
            if not all(map(_WHOLE.match, column)):
                raise Odd("no whole number")
            numbers.append(whole(column))

    def rows(self) -> TableRows:
        """All rows. Odd if there is none."""
        if not self._lines:
            raise Odd("no row")
        return TableRows(
            line=np.concatenate(self._lines),
            texts={
                name: (np.concatenate(parts), self._codes[name].numbered())
                for name, parts in self._texts.items()
            },
            numbers={name: np.concatenate(parts) for name, parts in self._numbers.items()},
        )


def parquet_columns(file: BinaryIO) -> OpColumns:
    """The operations of a Parquet file at once. Odd, or what makes `parquet_events` refuse it."""
    if extras.problem("pyarrow") is not None:
        raise Odd("no pyarrow")
    from pyarrow import ArrowException, parquet

    try:
        metadata = parquet.read_metadata(file)
        names = metadata.schema.names
        if len(set(names)) < len(names) or not set(WANTED) <= set(names):
            raise Odd("columns that are missing or there twice")
        _fits(metadata)
        stored = parquet.ParquetFile(file, read_dictionary=[n for n in TEXTS if n in names])
        wanted = [name for name in (*WANTED, "mode", "arg") if name in names]
        batches = list(stored.iter_batches(BATCH, columns=wanted))
        if not batches:
            raise Odd("no row")
        length = sum(batch.num_rows for batch in batches)
        columns = {name: [batch.column(name) for batch in batches] for name in wanted}
        return operations(
            TableRows(
                line=np.arange(1, length + 1, dtype=np.int32),
                texts={n: _words(columns[n]) for n in TEXTS if n in columns},
                numbers={n: _numbers(columns[n]) for n in NUMBERS if n in columns},
            )
        )
    except (ArrowException, OSError, ValueError) as error:
        raise Odd("no Parquet") from error


def _words(parts: Sequence[Array]) -> tuple[Rows, list[str]]:
    """Codes of a column of texts, and what they mean. Odd."""
    codes, columns = Codes(str), list[Rows]()
    for part in parts:
        if not str(part.type).startswith("dictionary") or part.null_count:
            raise Odd("a column without texts in it")
        texts = part.dictionary.to_pylist()
        if not all(isinstance(text, str) and len(text) <= LONGEST for text in texts):
            raise Odd("a value that is no text, or a long one")
        meant = codes.column(texts)
        columns.append(meant.take(_stored(part.indices)) if len(part) else meant[:0])
    return np.concatenate(columns), codes.numbered()


def _numbers(parts: Sequence[Array]) -> Ints:
    """A column of whole numbers. Odd."""
    if any(str(part.type) not in ("int64", "int32") or part.null_count for part in parts):
        raise Odd("a column without whole numbers in it")
    return in_range(np.concatenate([_stored(part) for part in parts]))


def _stored(part: Array) -> Ints:
    """The whole numbers of a column without nulls.

    `Array.to_numpy` imports pandas, which takes longer than a file of 1,000 operations.
    """
    kind, numbers = np.dtype(str(part.type)), part.buffers()[1]
    stored = np.frombuffer(numbers or b"", kind)
    return stored[part.offset : part.offset + len(part)].astype(np.int64)


def parquet_events(file: BinaryIO) -> Iterator[Event]:
    """The events of a Parquet file; a row counts as a line. UsageError without pyarrow."""
    reason = extras.problem("pyarrow")
    if reason is not None:
        raise UsageError(f"reading Parquet {reason}, or export csv")
    from pyarrow import ArrowException, parquet

    try:
        metadata = parquet.read_metadata(file)
        columns = metadata.schema.names
        _complete(columns)
        _fits(metadata)
        parquet_file = parquet.ParquetFile(file, read_dictionary=[n for n in TEXTS if n in columns])
        wanted = [name for name in (*WANTED, "mode", "err", "arg") if name in columns]
        rows = list(_rows(parquet_file.iter_batches(BATCH, columns=wanted)))
    except (ArrowException, OSError, ValueError) as error:
        raise Malformed(1, f"unreadable Parquet: {str(error)[:200]}") from error
    return _events(enumerate(rows, start=1))


def _fits(told: FileMetaData) -> None:
    """Malformed if the rows, or their columns once unpacked, do not fit in memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    groups = [told.row_group(n) for n in range(told.num_row_groups)]
    unpacked = sum(max(group.total_byte_size, 0) for group in groups)
    rows = max(told.num_rows, sum(max(group.num_rows, 0) for group in groups))
    if unpacked > memory // 4 or rows > memory // ROW_BYTES:
        raise Malformed(
            1, f"{rows} rows, {unpacked >> 20} MiB uncompressed: more than this machine's memory"
        )


def _rows(batches: Iterable[RecordBatch]) -> Iterator[Row]:
    """The rows of a file, in batches of thousands; Malformed if a text is too long.

    A text that is stored once in a dictionary may be used by every row: it is checked before.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    given = 0
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            texts = getattr(column, "dictionary", None)
            long = [] if texts is None else [t for t in texts if len(t.as_py() or "") > LONGEST]
            if long:
                raise Malformed(given + 1, f"{name} has a text of more than {LONGEST} characters")
        given += batch.num_rows
        if given > memory // ROW_BYTES:
            raise Malformed(given, "more rows than fit into this machine's memory")
        yield from batch.to_pylist()


def _complete(names: Iterable[str]) -> None:
    missing = [name for name in WANTED if name not in set(names)]
    if missing:
        raise Malformed(
            1, f"missing column {', '.join(missing)}: expected a table of holdfast export"
        )


def _events(rows: Iterable[tuple[int, Row]]) -> Iterator[Event]:
    """Invocations and completions of all lock operations by time; at ties invocations first."""
    edges = list[tuple[int, int, int, Event]]()
    lanes: dict[int, list[int | None]] = {}
    rows = list(rows)
    clients = 1 + max((_whole(row, "process", line) for line, row in rows), default=0)
    for line, row in rows:
        op, status = _word(row, "f", OPS, line), _word(row, "status", STATUSES, line)
        if op not in FS:
            continue
        begun, over = _whole(row, "t_inv", line), _whole(row, "t_ret", line)
        answered = status is not Status.INVOKED
        if begun < 0 or (answered and over < begun):
            raise Malformed(line, f"time goes backwards: from {begun} to {over}")
        client = _whole(row, "process", line)
        free = lanes.setdefault(client, [])
        lane = next((n for n, at in enumerate(free) if at is not None and at < begun), len(free))
        free[lane : lane + 1] = [over if answered else None]
        process = client + lane * clients
        edges.append((begun, 0, line, _event(row, line, process, "invoke", FS[op], begun)))
        if answered:
            completion = _event(row, line, process, KINDS[status], FS[op], over)
            edges.append((over, 1, line, completion))
    edges.sort(key=lambda edge: edge[:3])
    for edge in edges:
        yield edge[3]


def _event(row: Row, line: int, process: int, kind: str, f: str, time: int) -> Event:
    granted = kind == "ok" and f == "acquire"
    return Event(
        line=line,
        process=process,
        kind=kind,
        f=f,
        key=str(row["key"]),
        keyed=True,
        time=time,
        token=_whole(row, "token", line) if granted else NO_TOKEN,
        attempt=_whole(row, "attempt", line),
        shared=row.get("mode") == Mode.SHARED.name.lower(),
        lease_ns=max(_whole(row, "arg", line), 0) if "arg" in row and f in LEASED else 0,
        not_owner=kind == "fail" and row["status"] == Status.NOT_OWNER.name.lower(),
    )


def _word(row: Row, name: str, words: Mapping[str, W], line: int) -> W:
    value = row[name]
    if not isinstance(value, str) or value not in words:
        raise Malformed(
            line, f"invalid {name} {str(value)[:40]!r}: expected one of {', '.join(words)}"
        )
    return words[value]


def _whole(row: Row, name: str, line: int) -> int:
    value = row[name]
    if isinstance(value, str) and _WHOLE.match(value):
        value = int(value)
    if type(value) is not int or abs(value) > LARGEST:
        raise Malformed(line, f"invalid {name} {str(value)[:40]!r}: expected a whole number")
    return value
