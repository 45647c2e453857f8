"""One pipelined connection to a Redis server in its wire format (RESP); standard library only.

Requests of one connection are executed in the order of sending, also after their callers have
stopped waiting: a release sent after a late SET is executed after it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from functools import lru_cache

GIVE_UP_S = 1.0
"""A connection without a response for this time is reset, and what it had not sent is dropped."""

Reply = str | int | None | list["str | int | None"]


class NotSent(Exception):
    """The request was never sent: certainly no effect."""


class NoAnswer(Exception):
    """The request may have been executed or not, now or later."""


class Refused(Exception):
    """The server responded with an error: no effect."""


class Link:
    """One server by its address. Connects on demand, and again after a break."""

    def __init__(self, address: str, port: int) -> None:
        self._address = address
        self._port = port
        self._connecting = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: deque[tuple[float, asyncio.Future[Reply | Exception]]] = deque()

    async def ask(self, *words: str | int, within_s: float) -> Reply:
        """The response to one command. Raises NotSent, NoAnswer or Refused."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        try:
            async with asyncio.timeout_at(until_s), self._connecting:
                writer = self._writer or await self._connect()
        except (OSError, TimeoutError) as error:
            raise NotSent(str(error) or "no connection in time") from error
        answer: asyncio.Future[Reply | Exception] = loop.create_future()
        self._waiting.append((loop.time(), answer))
        writer.write(encoded(words))
        await asyncio.wait([answer], timeout=max(0.001, until_s - loop.time()))
        if not answer.done():
            if loop.time() - self._waiting[0][0] >= GIVE_UP_S:
                self._cut()
            raise NoAnswer("no answer in time")
        reply = answer.result()
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self) -> None:
        """Closes the connection. Requests sent are not undone."""
        if self._writer is not None:
            self._writer.close()
        self._forget()

    async def _connect(self) -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection(self._address, self._port)
        self._writer = writer
        self._reading = asyncio.get_running_loop().create_task(self._read(reader, writer))
        return writer

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                reply = await decoded(reader)
                _, answer = self._waiting.popleft()
                if not answer.done():
                    answer.set_result(reply)
        except (OSError, EOFError, ValueError, IndexError):
            if self._writer is writer:
                writer.close()
                self._forget()

    def _cut(self) -> None:
        """Resets the connection, so that the kernel does not deliver old commands after a heal."""
        if self._writer is not None:
            # The simulator has no socket: an aborted connection is reset there anyway.
            plug = self._writer.get_extra_info("socket")
            if plug is not None:
                plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._writer.transport.abort()
        self._forget()

    def _forget(self) -> None:
        if self._reading is not None and self._reading is not asyncio.current_task():
            self._reading.cancel()
        self._writer, self._reading = None, None
        for _, answer in self._waiting:
            if not answer.done():
                answer.set_result(NoAnswer("the connection broke"))
        self._waiting.clear()


def encoded(words: tuple[str | int, ...]) -> bytes:
    """A command in the wire format."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        parts.append(_text(word) if isinstance(word, str) else _bulk(b"%d" % word))
    return b"".join(parts)


@lru_cache(1024)
def _text(word: str) -> bytes:
    """Cached: a client sends the same few words again and again, including whole scripts."""
    return _bulk(word.encode())


def _bulk(raw: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(raw), raw)


async def decoded(reader: asyncio.StreamReader) -> Reply | Exception:
    """One response; a Refused for an error. Raises EOFError, ValueError."""
    line = (await reader.readuntil(b"\r\n"))[:-2].decode(errors="replace")
    kind, rest = line[:1], line[1:]
    match kind:
        case "+":
            return rest
        case ":":
            return int(rest)
        case "-":
            return Refused(rest)
        case "$" if rest == "-1":
            return None
        case "$":
            return (await reader.readexactly(int(rest) + 2))[:-2].decode(errors="replace")
        case "*":
            return [await _simple(reader) for _ in range(int(rest))]
    raise ValueError(f"an answer of kind {kind!r} is not expected here")


async def _simple(reader: asyncio.StreamReader) -> str | int | None:
    """One element of a list, not a list or an error itself. Raises EOFError, ValueError."""
    part = await decoded(reader)
    if isinstance(part, list | Exception):
        raise ValueError("a list of lists, or of errors, is not expected here")
    return part
