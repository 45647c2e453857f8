"""Durable storage of a node: a log of checksummed lines and a snapshot, in one folder.

A line is eight hex digits of CRC-32, a blank and JSON. A broken last line results from a crash
during a write (torn write): it was never acknowledged and is cut off. Any other data that does not
read back as written stops the node, because it may have promised what it no longer knows.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from pathlib import Path
from typing import Any

from holdfast.clusters.systems.reference.consensus.messages import (
    NOTHING,
    Ballot,
    Durable,
    Entry,
    Save,
    Snapshot,
    Tail,
)


class Corrupt(Exception):
    """The folder does not contain what was written; where, what, and what to do."""


class Storage:
    """The folder of one node. `write` any number of saves; they are durable after `sync`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._log = folder / "log"
        self._guard = os.open(folder / "guard", os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Corrupt(f"{folder}: another process uses this folder; stop it first") from None
        self._file = -1
        self._dirty = False
        self.cut_bytes = 0

    def load(self) -> Durable:
        """The durable state. Raises Corrupt."""
        snapshot = self._load_snapshot()
        ballot, entries = self._load_log(snapshot)
        self._file = os.open(self._log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        self._sync_folder()
        return Durable(ballot=ballot, snapshot=snapshot, entries=entries)

    def write(self, save: Save) -> None:
        """Queues a save; durable once `sync` returns."""
        if isinstance(save, Durable):
            self._replace(save)
            return
        self._write_all(self._file, b"".join(map(_line, _records(save))))
        self._dirty = True

    def sync(self) -> None:
        """Makes all that was written durable. OSError means that the node must not continue."""
        if self._dirty:
            os.fdatasync(self._file)
            self._dirty = False

    def close(self) -> None:
        """Closes the folder."""
        for file in (self._file, self._guard):
            if file >= 0:
                os.close(file)

    def _load_snapshot(self) -> Snapshot:
        path = self._folder / "snapshot"
        if not path.exists():
            return NOTHING.snapshot
        try:
            index, term, state = _parse(path.read_bytes().rstrip(b"\n"))
        except ValueError as error:
            raise Corrupt(_advice(path, "the snapshot", str(error))) from None
        return Snapshot(index=index, term=term, state=state)

    def _load_log(self, snapshot: Snapshot) -> tuple[Ballot, tuple[Entry, ...]]:
        ballot, entries, agrees = NOTHING.ballot, list[Entry](), True
        for line, record in enumerate(self._lines(), 1):
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
                missing = snapshot.index + len(entries) + 1
                raise Corrupt(_advice(self._log, f"line {line}", f"entry {missing} is missing"))
            entries[place:] = [Entry(term=term, command=command)]
        return ballot, tuple(entries) if agrees else ()

    def _lines(self) -> list[Any]:
        if not self._log.exists():
            return []
        data = self._log.read_bytes()
        lines = data.split(b"\n")
        unfinished = lines.pop()
        records = []
        start = 0
        for n, line in enumerate(lines, 1):
            try:
                records.append(_parse(line))
            except ValueError as error:
                if n < len(lines) or unfinished:
                    raise Corrupt(_advice(self._log, f"line {n}", str(error))) from None
                unfinished = line
                break
            start += len(line) + 1
        if unfinished:
            self._cut(start, len(data))
        return records

    def _cut(self, size: int, was: int) -> None:
        self.cut_bytes = was - size
        with open(self._log, "r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())

    def _replace(self, durable: Durable) -> None:
        snapshot, ballot = durable.snapshot, durable.ballot
        self._put("snapshot", _line([snapshot.index, snapshot.term, snapshot.state]))
        kept = Tail(first=snapshot.index + 1, entries=durable.entries)
        self._put("log", b"".join(map(_line, [*_records(ballot), *_records(kept)])))
        os.close(self._file)
        self._file = os.open(self._log, os.O_WRONLY | os.O_APPEND)
        self._dirty = False

    def _put(self, name: str, data: bytes) -> None:
        """Replaces a file atomically: after a crash it is the old one or the new one."""
        new = self._folder / f"{name}.new"
        file = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        try:
            self._write_all(file, data)
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(new, self._folder / name)
        self._sync_folder()

    def _sync_folder(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @staticmethod
    def _write_all(file: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]


def _records(save: Ballot | Tail) -> list[list[object]]:
    if isinstance(save, Ballot):
        return [["ballot", save.term, save.vote]]
    return [
        ["entry", save.first + n, entry.term, entry.command] for n, entry in enumerate(save.entries)
    ]


def _line(record: list[object]) -> bytes:
    body = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def _parse(line: bytes) -> Any:
    checksum, _, body = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        raise ValueError("the checksum does not match")
    return json.loads(body)


def _advice(path: Path, where: str, why: str) -> str:
    return (
        f"{path}: {where}: {why}; this node may have promised what it no longer knows: replace"
        " it by a node with another name, do not empty its folder"
    )
