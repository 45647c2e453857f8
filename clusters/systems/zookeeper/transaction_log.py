"""ZooKeeper's transaction log, as its servers write it: format version 2, jute records.

A file has a header, then entries: a checksum, a length, that many bytes, an end mark; zeros follow
where the file is longer than its content. An incomplete entry at the end is not read.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

HEADER = struct.Struct(">iiq")
ENTRY = struct.Struct(">qi")
TRANSACTION = struct.Struct(">qiqqi")
MAGIC, VERSION, END_MARK = 0x5A4B4C47, 2, b"B"
MOST_BYTES = 16 << 20
"""Upper bound of an entry: a longer one is no entry."""
DELETE, MULTI, CLOSE_SESSION = 2, 14, -11
CREATES = (1, 15, 19, 21)
"""Types: create, create2, createContainer, createTTL: the first two may be ephemeral."""
EPHEMERALS = (1, 15)


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A node that was created. session: which ends it, 0 for none."""

    path: str
    data: bytes
    session: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Transaction:
    """What a transaction does: nodes that are created and paths that are deleted, in order, and the
    session that it closes (0: none), whose nodes are deleted with it."""

    zxid: int
    changes: Sequence[Node | str] = ()
    closed: int = 0


class Jute:
    """Reads the primitive values of a record. Raises ValueError at its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self) -> int:
        """A number of 32 bits."""
        return int.from_bytes(self._take(4), "big", signed=True)

    def flag(self) -> bool:
        return self._take(1) != b"\0"

    def buffer(self) -> bytes:
        """Bytes after their length; b"" also for none."""
        return self._take(max(0, self.number()))

    def text(self) -> str:
        return self.buffer().decode(errors="replace")

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise ValueError("the record is too short")
        self._at, begin = end, self._at
        return self._data[begin:end]


def begun(head: bytes) -> bool:
    """Whether a file has its header, by its first bytes. ValueError if it is no transaction log."""
    if len(head) < HEADER.size or not any(head[: HEADER.size]):
        return False
    magic, version, _ = HEADER.unpack_from(head)
    if (magic, version) != (MAGIC, VERSION):
        raise ValueError(f"no transaction log of version {VERSION}: {magic:#x}, {version}")
    return True


def length_of(head: bytes) -> int:
    """The length of an entry with its end mark, by its head; 0 if it cannot be one."""
    length: int = ENTRY.unpack(head)[1] if len(head) == ENTRY.size else 0
    return length + 1 if 0 < length <= MOST_BYTES else 0


def entries(data: bytes) -> Iterator[tuple[Transaction, int]]:
    """The whole entries from the first byte on, each with its length."""
    at = 0
    while at + ENTRY.size <= len(data):
        checksum, length = ENTRY.unpack_from(data, at)
        begin, end = at + ENTRY.size, at + ENTRY.size + length
        if not 0 < length <= MOST_BYTES or data[end : end + 1] != END_MARK:
            return
        if zlib.adler32(data[begin:end]) != checksum:
            return
        yield transaction(data[begin:end]), end + 1 - at
        at = end + 1


def transaction(data: bytes) -> Transaction:
    """One transaction. ValueError if it is cut off."""
    if len(data) < TRANSACTION.size:
        raise ValueError("the transaction is too short")
    session, _, zxid, _, kind = TRANSACTION.unpack_from(data)
    body = data[TRANSACTION.size :]
    if kind == CLOSE_SESSION:
        return Transaction(zxid=zxid, closed=session)
    return Transaction(zxid=zxid, changes=_changes(kind, body, session))


def _changes(kind: int, body: bytes, session: int) -> list[Node | str]:
    """What a transaction of this type changes."""
    record = Jute(body)
    if kind in CREATES:
        path, data = record.text(), record.buffer()
        for _ in range(max(0, record.number()) if kind in EPHEMERALS else 0):
            record.number(), record.text(), record.text()  # an entry of its access control list
        ephemeral = kind in EPHEMERALS and record.flag()
        return [Node(path=path, data=data, session=session if ephemeral else 0)]
    if kind == DELETE:
        return [record.text()]
    changes: list[Node | str] = []
    for _ in range(record.number() if kind == MULTI else 0):
        inner, within = record.number(), record.buffer()
        if inner != MULTI:
            changes += _changes(inner, within, session)
    return changes
