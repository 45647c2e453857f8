"""A connection to Redis with as little between the caller and the socket as Python allows.

One question at a time, one answer to each: whoever wants more at once opens more of them. It is for
drivers that must not be the bottleneck. Standard library only; it runs on any event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast


class Lean(asyncio.Protocol):
    """Calls `on_answer` with each whole answer, as it came, and `on_end` when it is closed."""

    def __init__(self, on_answer: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_answer, self._on_end = on_answer, on_end
        self._part = b""
        self.ask: Callable[[bytes], None] = _unconnected
        self.close: Callable[[], None] = _nothing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Loops that are not asyncio's own have transports of their own make.
        stream = cast(asyncio.Transport, transport)
        self.ask, self.close = stream.write, stream.close

    def data_received(self, data: bytes) -> None:
        if self._part:
            data, self._part = self._part + data, b""
        if whole(data):
            self._on_answer(data)
        else:
            self._part = data

    def connection_lost(self, error: Exception | None) -> None:
        self.ask = _unconnected
        self._on_end()


def whole(data: bytes) -> bool:
    """Whether this is one whole answer: a status, an error, a number, or a string."""
    if not data.endswith(b"\r\n"):
        return False
    if not data.startswith(b"$"):
        return True
    head = data.index(b"\r\n")
    size = int(data[1:head])
    return size < 0 or len(data) >= head + 4 + size


def _nothing() -> None:
    return


def _unconnected(question: bytes) -> None:
    raise ConnectionError("there is no connection")
