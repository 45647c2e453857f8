"""Asks a MariaDB server one question without a library: for the driver, which has none."""

from __future__ import annotations

import asyncio

from holdfast.clusters.systems.mariadb import PORT, USER

STATUS_S = 0.5
PROTOCOL_41, SECURE, PLUGIN_AUTH = 0x200, 0x8000, 0x80000
UTF8 = 33
QUERY = b"\x03"
OK, END, ERROR = 0x00, 0xFE, 0xFF


async def states(address: str) -> dict[str, str]:
    """The server's status variables of Galera, as in wsrep_ready: ON; {} if it does not respond."""
    try:
        async with asyncio.timeout(STATUS_S):
            reader, writer = await asyncio.open_connection(address, PORT)
            try:
                return await _asked(reader, writer, "show status like 'wsrep\\_%'")
            finally:
                writer.close()
    except (OSError, EOFError, TimeoutError, ValueError):
        return {}


async def _asked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, words: str
) -> dict[str, str]:
    """The two columns of a query's rows. ValueError if the server refuses it."""
    await _packet(reader)
    flags = PROTOCOL_41 | SECURE | PLUGIN_AUTH
    login = flags.to_bytes(4, "little") + (1 << 24).to_bytes(4, "little") + bytes([UTF8])
    _send(writer, 1, login + bytes(23) + USER.encode() + b"\0\0mysql_native_password\0")
    if (await _packet(reader))[0] != OK:
        raise ValueError("no login")
    _send(writer, 0, QUERY + words.encode())
    columns = await _packet(reader)
    if columns[0] in (OK, ERROR):
        raise ValueError("no rows")
    while (await _packet(reader))[0] != END:
        continue
    rows = dict[str, str]()
    while (row := await _packet(reader))[0] != END:
        name, rest = _text(row)
        rows[name] = _text(rest)[0]
    return rows


async def _packet(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes((await reader.readexactly(4))[:3], "little")
    return await reader.readexactly(size)


def _send(writer: asyncio.StreamWriter, number: int, payload: bytes) -> None:
    writer.write(len(payload).to_bytes(3, "little") + bytes([number]) + payload)


def _text(row: bytes) -> tuple[str, bytes]:
    """The first column of a row, and the rest. Its length is in one byte, or in two after 0xFC."""
    size, begin = (int.from_bytes(row[1:3], "little"), 3) if row[0] == 0xFC else (row[0], 1)
    return row[begin : begin + size].decode(errors="replace"), row[begin + size :]
