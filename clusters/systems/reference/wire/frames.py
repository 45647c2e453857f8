"""Frames on a TCP stream: four bytes of length, then one JSON object.

An invalid frame (too long, not JSON, not an object, truncated) closes that one connection with a
reason; other connections are not affected.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

Frame = Mapping[str, Any]

MAX_FRAME = 16 << 20
"""bytes; a whole snapshot has to fit"""

MAX_BUFFER = 32 << 20
"""limit on the bytes that wait for a peer that does not read; more are rejected, never queued"""

STALL_MS = 1000
"""Sent bytes unacknowledged for this time end a connection. The kernel's own timeout doubles with
every retransmission, so that a connection could hang for many seconds after a partition heals.
"""

DEFAULT_PORT = 7400


class BadFrame(ValueError):
    """These bytes are not a frame; the message says why."""


def encode(message: Frame) -> bytes:
    """One frame. Raises BadFrame if it is too long for the other end."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MAX_FRAME:
        raise BadFrame(f"a frame of {len(body)} bytes is over the limit of {MAX_FRAME}")
    return len(body).to_bytes(4, "big") + body


class Decoder:
    """Splits a stream of bytes into frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete with these bytes. Raises BadFrame at the first bad one."""
        held = self._bytes
        held += data
        frames: list[Frame] = []
        at = 0
        while len(held) - at >= 4:
            size = int.from_bytes(held[at : at + 4], "big")
            if size > MAX_FRAME:
                raise BadFrame(f"a frame of {size} bytes is over the limit of {MAX_FRAME}")
            if len(held) - at - 4 < size:
                break
            frames.append(_parse(bytes(held[at + 4 : at + 4 + size])))
            at += 4 + size
        del held[:at]
        return frames

    def half(self) -> int:
        """Number of bytes of an incomplete frame."""
        return len(self._bytes)


def _parse(body: bytes) -> Frame:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise BadFrame(f"an object was expected, not {type(message).__name__}")
    return message


def endpoint(text: str, port: int = DEFAULT_PORT) -> tuple[str, int]:
    """("127.0.0.1", 7400) of "127.0.0.1" or "127.0.0.1:7400"."""
    host, colon, given = text.rpartition(":")
    return (host, int(given)) if colon else (text, port)


class Framed(asyncio.Protocol):
    """One connection that transfers frames. on_frame(connection, frame) and on_close(connection,
    reason) are called on the loop; on_close exactly once, and nothing after it.

    A transport within this process, marked by the extra "frames", gets frames as they are and
    passes them to `frame_received`; with the extra "objects" a frame's content need not be JSON.
    """

    def __init__(
        self,
        on_frame: Callable[[Framed, Frame], None],
        on_close: Callable[[Framed, str], None],
    ) -> None:
        self._on_frame = on_frame
        self._on_close = on_close
        self.frame_received: Callable[[Frame], None] = partial(on_frame, self)
        """handles a whole frame, from a transport within this process"""
        self.send: Callable[[Frame], bool] = self._write
        """passes a frame to the kernel or its queue; False if closed or too much is queued"""
        self._decoder = Decoder()
        self._transport: asyncio.Transport | None = None
        self._reason = ""
        self.objects = False
        self.peer = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.send = transport.get_extra_info("frames") or self._write
        self.objects = bool(transport.get_extra_info("objects"))
        self.peer = str(transport.get_extra_info("peername"))
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALL_MS)
            # Keep-alive detects a vanished peer although nothing is being sent to it.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._decoder.feed(data)
        except BadFrame as error:
            self.drop(str(error))
            return
        for frame in frames:
            if self._transport is None:
                return
            self._on_frame(self, frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        half = self._decoder.half()
        reason = self._reason or (str(exc) if exc else "closed by the other end")
        if half and not self._reason:
            reason += f", {half} bytes into a frame"
        self._on_close(self, reason)

    def _write(self, message: Frame) -> bool:
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        if transport.get_write_buffer_size() > MAX_BUFFER:
            return False
        transport.write(encode(message))
        return True

    def drop(self, reason: str) -> None:
        """Closes the connection at once; data not yet sent is dropped."""
        if self._transport is not None:
            self._reason = self._reason or reason
            self._transport.abort()
