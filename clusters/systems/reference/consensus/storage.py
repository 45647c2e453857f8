"""Durable storage of a node: a log of checksummed lines and a snapshot, in one folder.

An unfinished last line of the log is cut off. Any other data that does not read back as written
stops the node, because it may have promised what it no longer knows.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from holdfast.clusters.systems.reference.consensus.messages import NOTHING, Durable, Save, Snapshot
from holdfast.clusters.systems.reference.consensus.stored_records import (
    Log,
    log_file,
    log_lines,
    read_log,
    read_snapshot,
    snapshot_file,
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
        log = self._load_log(snapshot)
        self._file = os.open(self._log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        self._sync_folder()
        return Durable(ballot=log.ballot, snapshot=snapshot, entries=log.entries)

    def write(self, save: Save) -> None:
        """Queues a save; durable once `sync` returns."""
        if isinstance(save, Durable):
            self._replace(save)
            return
        self._write_all(self._file, log_lines(save))
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
            return read_snapshot(path.read_bytes())
        except ValueError as error:
            raise Corrupt(_advice(path, f"the snapshot: {error}")) from None

    def _load_log(self, snapshot: Snapshot) -> Log:
        data = self._log.read_bytes() if self._log.exists() else b""
        try:
            log = read_log(data, snapshot)
        except ValueError as error:
            raise Corrupt(_advice(self._log, str(error))) from None
        if log.size < len(data):
            self._cut(log.size, len(data))
        return log

    def _cut(self, size: int, was: int) -> None:
        self.cut_bytes = was - size
        with open(self._log, "r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())

    def _replace(self, durable: Durable) -> None:
        self._put("snapshot", snapshot_file(durable.snapshot))
        self._put("log", log_file(durable))
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


def _advice(path: Path, why: str) -> str:
    return (
        f"{path}: {why}; this node may have promised what it no longer knows: replace"
        " it by a node with another name, do not empty its folder"
    )
