"""What the files of a node contain: a log of checksummed lines, and a snapshot of one line.

A line is eight hex digits of CRC-32, a blank and JSON. A broken last line results from a crash
during a write (torn write): it was never acknowledged and does not count. `storage` has these files
in a folder, `service.simulated_node` in memory.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple

from holdfast.clusters.systems.reference.consensus.messages import (
    NOTHING,
    Ballot,
    Durable,
    Entry,
    Snapshot,
    Tail,
)


class Log(NamedTuple):
    """What a log says. size: bytes without a line that a crash left unfinished."""

    ballot: Ballot
    entries: tuple[Entry, ...]
    size: int


def snapshot_file(snapshot: Snapshot) -> bytes:
    """The content of the file of a snapshot."""
    return _line([snapshot.index, snapshot.term, snapshot.state])


def log_lines(save: Ballot | Tail) -> bytes:
    """What a save appends to the log."""
    if isinstance(save, Ballot):
        return _line(["ballot", save.term, save.vote])
    return b"".join(
        _line(["entry", save.first + n, entry.term, entry.command])
        for n, entry in enumerate(save.entries)
    )


def log_file(durable: Durable) -> bytes:
    """The log after a snapshot."""
    kept = Tail(first=durable.snapshot.index + 1, entries=durable.entries)
    return log_lines(durable.ballot) + log_lines(kept)


def read_snapshot(data: bytes) -> Snapshot:
    """The snapshot of a file. ValueError if it was not written so."""
    index, term, state = _parse(data.rstrip(b"\n"))
    return Snapshot(index=index, term=term, state=state)


def read_log(data: bytes, snapshot: Snapshot) -> Log:
    """What a log adds to a snapshot. ValueError, with the line, if it was not written so."""
    ballot, entries, agrees = NOTHING.ballot, list[Entry](), True
    records, size = _records(data)
    for line, record in enumerate(records, 1):
        if record[0] == "ballot":
            ballot = Ballot(term=record[1], vote=record[2])
            continue
        _, index, term, command = record
        if index <= snapshot.index:
            # A crash between a new snapshot and its new log: entries of the old log count only
            # if they continue what the snapshot covers.
            entries.clear()
            agrees = index < snapshot.index or term == snapshot.term
            continue
        place = index - snapshot.index - 1
        if place > len(entries):
            raise ValueError(f"line {line}: entry {index - place + len(entries)} is missing")
        entries[place:] = [Entry(term=term, command=command)]
    return Log(ballot, tuple(entries) if agrees else (), size)


def _records(data: bytes) -> tuple[list[Any], int]:
    """The records of a log, and its size without an unfinished last line."""
    lines = data.split(b"\n")
    unfinished = lines.pop()
    records, size = [], 0
    for n, line in enumerate(lines, 1):
        try:
            records.append(_parse(line))
        except ValueError as error:
            if n < len(lines) or unfinished:
                raise ValueError(f"line {n}: {error}") from None
            break
        size += len(line) + 1
    return records, size


def _line(record: list[object]) -> bytes:
    body = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def _parse(line: bytes) -> Any:
    checksum, _, body = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        raise ValueError("the checksum does not match")
    return json.loads(body)
