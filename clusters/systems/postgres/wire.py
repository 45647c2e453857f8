"""One query to a PostgreSQL server from the driver, by the wire protocol of version 3."""

from __future__ import annotations

import asyncio
import struct

from holdfast.clusters.systems.postgres import DATABASE, PORT, USER

PROTOCOL = 3 << 16
LONGEST = 1 << 20
Row = tuple[str, ...]


async def first_row(address: str, words: str, within_s: float) -> Row | None:
    """The first row of a query as text, null as "", () without one; None if the server opens no
    session, reports an error or does not respond in time."""
    try:
        async with asyncio.timeout(within_s):
            return await _first_row(address, words)
    except (OSError, EOFError, TimeoutError, ValueError):
        return None


def startup() -> bytes:
    """The first message of a session."""
    pairs = ("user", USER, "database", DATABASE, "")
    body = struct.pack("!i", PROTOCOL) + b"".join(word.encode() + b"\0" for word in pairs)
    return struct.pack("!i", len(body) + 4) + body


async def _first_row(address: str, words: str) -> Row | None:
    reader, writer = await asyncio.open_connection(address, PORT)
    try:
        writer.write(startup())
        if await _row_of(reader) != ():
            return None
        query = words.encode() + b"\0"
        writer.write(b"Q" + struct.pack("!i", len(query) + 4) + query)
        row = await _row_of(reader)
        writer.write(b"X" + struct.pack("!i", 4))
        return row
    finally:
        writer.close()


async def _row_of(reader: asyncio.StreamReader) -> Row | None:
    """Reads until the server is ready for the next query; the first row, None after an error."""
    row: Row | None = ()
    while True:
        kind, length = struct.unpack("!ci", await reader.readexactly(5))
        if not 4 <= length <= LONGEST:
            raise ValueError(f"a message of {length} bytes")
        body = await reader.readexactly(length - 4)
        if kind == b"E":
            return None
        if kind == b"D" and row == ():
            row = _values(body)
        if kind == b"Z":
            return row


def _values(body: bytes) -> Row:
    """The values of a message DataRow."""
    (count,), at = struct.unpack_from("!h", body), 2
    values = []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", body, at)
        end = at + 4 + max(length, 0)
        values.append(body[at + 4 : end].decode())
        at = end
    return tuple(values)
