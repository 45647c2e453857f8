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
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from holdfast.harness.core import extras
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status
from holdfast.harness.foreign.event_fields import LARGEST
from holdfast.harness.foreign.operations import Event, Malformed
from holdfast.harness.foreign.write import FS, KINDS, LEASED

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import FileMetaData

WANTED = ("f", "status", "process", "key", "t_inv", "t_ret", "attempt", "token")
TEXTS = ("f", "status", "key", "mode", "err")
BATCH, LONGEST = 1 << 14, 1 << 14
ROW_BYTES = 2048
"""Approximate memory per row until its events are sorted."""
OPS = {op.name.lower(): op for op in Op}
STATUSES = {status.name.lower(): status for status in Status}
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


def parquet_events(file: BinaryIO) -> Iterator[Event]:
    """The events of a Parquet file; a row counts as a line. UsageError without pyarrow."""
    reason = extras.problem("pyarrow")
    if reason is not None:
        raise UsageError(f"reading Parquet {reason}, or export csv")
    from pyarrow import ArrowException, parquet

    try:
        told = parquet.read_metadata(file)
        columns = told.schema.names
        _complete(columns)
        _fits(told)
        found = parquet.ParquetFile(file, read_dictionary=[n for n in TEXTS if n in columns])
        wanted = [name for name in (*WANTED, "mode", "err", "arg") if name in columns]
        rows = list(_rows(found.iter_batches(BATCH, columns=wanted)))
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
            told = _event(row, line, process, KINDS[status], FS[op], over)
            edges.append((over, 1, line, told))
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
