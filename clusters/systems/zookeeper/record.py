"""ZooKeeper's record of the locks: the transaction logs that the servers write, by zxid.

A transaction that is in the logs of a majority of the servers is committed. The logs are read from
their files five times a second. A log may lose an end that was not committed. If one loses what a
majority had, its data was replaced or restored: the record ends there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from holdfast.clusters.systems.polled_record import Looks
from holdfast.clusters.systems.zookeeper.transaction_log import (
    ENTRY,
    HEADER,
    Node,
    Transaction,
    begun,
    entries,
    length_of,
)
from holdfast.harness.recording.server_record import (
    BEGUN,
    GONE,
    PUT,
    SEEN,
    RecordEvent,
    RecordTask,
)

LOOK_S = 0.2
CHUNK = 1 << 18
CONTENDER = re.compile(r"/holdfast/(?P<lock>.+)/[0-9a-f]+__lock__(?P<sequence>\d{10})")
"""A node of kazoo's Lock; that with the lowest sequence of a lock holds it."""


class Log:
    """The log of one server, read up to a place of its last file.

    zxids   of its transactions, in order, with what is not noted yet
    """

    def __init__(self, folder: Path) -> None:
        self.zxids: dict[int, Transaction | None] = {}
        self._folder = folder
        self._file = ""
        self._at = self._last_at = 0
        self._last = b""

    def read(self, last: int) -> bool:
        """Reads what is new; a log that was cut is read again from its beginning, and False if it
        has lost a transaction up to the zxid `last` by that.

        OSError if a file cannot be read, ValueError if one is no log.
        """
        logs = (path.name for path in self._folder.glob("log.*"))
        names = sorted(logs, key=lambda name: int(name[4:], 16))
        kept: list[int] = []
        if self._file and (self._file not in names or self._cut()):
            kept = [zxid for zxid in self.zxids if zxid <= last]
            self.zxids.clear()
            self._file = ""
        for name in names[names.index(self._file) if self._file else 0 :]:
            if name != self._file:
                self._file, self._at, self._last = name, 0, b""
            self._read_on()
        return all(zxid in self.zxids for zxid in kept)

    def _cut(self) -> bool:
        """Whether the last entry that was read is not at its place any more."""
        with (self._folder / self._file).open("rb") as file:
            file.seek(self._last_at)
            return file.read(len(self._last)) != self._last

    def _read_on(self) -> None:
        with (self._folder / self._file).open("rb") as file:
            if not self._at:
                if not begun(file.read(HEADER.size)):
                    return
                self._at = HEADER.size
            length = -1
            while length:
                file.seek(self._at)
                length = self._read_part(file)

    def _read_part(self, file: BinaryIO) -> int:
        """Reads some entries; their length. Zeros follow the last one, megabytes of them."""
        head = file.read(ENTRY.size)
        if not any(head):
            return 0
        data, at = head + file.read(max(CHUNK, length_of(head))), 0
        for transaction, length in entries(data):
            self.zxids[transaction.zxid] = transaction
            self._last_at, self._last = self._at + at, data[at : at + ENTRY.size]
            at += length
        self._at += at
        return at


class Reader:
    """Looks at all logs again and again, and notes what a majority of them has."""

    def __init__(self, task: RecordTask) -> None:
        self._task = task
        self._logs = [Log(task.data / node.name / "version-2") for node in task.servers]
        self._nodes: dict[str, Node] = {}
        self._by_sequence = task.options.get("token") == "sequence"
        self._last = -1
        """The last zxid that was noted."""
        self.looks = Looks(task)

    def look(self) -> int:
        """One look at all logs: when it began, if all of them could be read; else 0.

        ValueError if the record cannot go on.
        """
        asked_ns = self._task.now()
        for log in self._logs:
            try:
                whole = log.read(self._last)
            except OSError:
                return 0
            if not whole:
                raise ValueError("a server's transaction log has lost committed transactions")
        for done in self._committed():
            for event in self._events(done):
                self._task.note(event)
        if not all(log.zxids for log in self._logs):
            return 0
        newest = max(next(reversed(log.zxids)) for log in self._logs)
        self.looks.seen_ns = asked_ns
        self._task.note(RecordEvent(event=SEEN, t_ns=asked_ns, at=newest))
        return asked_ns

    def _committed(self) -> Iterator[Transaction]:
        """The transactions that a majority has since the last look, in order."""
        counts: dict[int, int] = {}
        for log in self._logs:
            for zxid in reversed(log.zxids):
                if zxid <= self._last:
                    break
                counts[zxid] = counts.get(zxid, 0) + 1
        majority = len(self._logs) // 2 + 1
        for zxid in sorted(zxid for zxid, n in counts.items() if n >= majority):
            copies = [log.zxids[zxid] for log in self._logs if zxid in log.zxids]
            for log in self._logs:
                if zxid in log.zxids:
                    log.zxids[zxid] = None
            self._last = zxid
            yield next(one for one in copies if one is not None)

    def _events(self, done: Transaction) -> Iterator[RecordEvent]:
        """What a transaction changes in the locks."""
        closed = [path for path, node in self._nodes.items() if node.session == done.closed]
        for change in (*done.changes, *(closed if done.closed else ())):
            if isinstance(change, str):
                if self._nodes.pop(change, None) is not None:
                    yield self._event(GONE, change, done.zxid)
            elif CONTENDER.fullmatch(change.path):
                self._nodes[change.path] = change
                owner = change.data.decode(errors="replace")
                yield self._event(PUT, change.path, done.zxid, owner)

    def _event(self, kind: str, path: str, zxid: int, owner: str = "") -> RecordEvent:
        contender = CONTENDER.fullmatch(path)
        assert contender is not None
        sequence = int(contender["sequence"])
        return RecordEvent(
            event=kind,
            t_ns=self._task.now(),
            at=zxid,
            lock=contender["lock"],
            rank=sequence + 1,
            owner=owner,
            token=sequence if self._by_sequence else zxid,
        )


async def follow(task: RecordTask) -> None:
    """Reads until the run is over, and once more after that."""
    source = f"ZooKeeper: the transaction logs of {len(task.servers)} servers, by zxid"
    task.note(RecordEvent(event=BEGUN, t_ns=task.now(), reason=source))
    reader = Reader(task)

    async def look() -> int:
        return reader.look()

    await reader.looks.repeat(look, LOOK_S)
