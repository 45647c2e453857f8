"""Fast connections to Redis with minimal overhead between the caller and the socket.

One request at a time, one response to each; for more, open more connections. All connections of an
event loop share one epoll descriptor, which is all that the loop itself watches: one iteration
serves every response that has arrived. For drivers that must not be the bottleneck. Standard
library only, Linux; it runs on any event loop.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from weakref import WeakKeyDictionary

READ_BYTES = 448
"""Responses of a lock are shorter, and Python's small-object allocator serves this size. A longer
response takes several reads."""
USUAL = frozenset((b"+OK\r\n", b"$-1\r\n", b":-1\r\n", b":0\r\n", b":1\r\n"))
"""Responses that are known to be complete without parsing."""
IN = select.EPOLLIN
ROUNDS = 8
"""Number of polls for responses in one iteration of the loop before others are served."""

_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


class Hub:
    """The connections of one event loop, behind one descriptor."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._lines: dict[int, Lean] = {}

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> Hub:
        """The hub of this loop."""
        hub = _hubs.get(loop)
        if hub is None:
            hub = _hubs[loop] = cls(loop)
        return hub

    def add(self, number: int, line: Lean) -> None:
        """Watch a connection for reading."""
        if not self._lines:
            self._loop.add_reader(self._epoll.fileno(), self._serve)
        self._lines[number] = line
        self._epoll.register(number, select.EPOLLIN)

    def also_writable(self, number: int, *, wanted: bool) -> None:
        """Watch a connection for writing too, or no longer."""
        self._epoll.modify(number, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))

    def remove(self, number: int) -> None:
        self._epoll.unregister(number)
        del self._lines[number]
        if not self._lines:
            self._loop.remove_reader(self._epoll.fileno())

    def _serve(self) -> None:
        lines, poll = self._lines, self._epoll.poll
        for _ in range(ROUNDS):
            ready = poll(0)
            if not ready:
                return
            for number, event in ready:
                # A connection served before it in this round may have closed it.
                line = lines.get(number)
                if line is None:
                    continue
                if event == IN:
                    line.read_on()
                    continue
                if event & select.EPOLLOUT:
                    line.write_on()
                if event & ~select.EPOLLOUT:
                    line.read_on()


class Lean:
    """One connection: calls `on_answer` with each complete response, and `on_end` when closed."""

    def __init__(self, on_answer: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_answer, self._on_end = on_answer, on_end
        self._part = self._unsent = b""
        self._plug: socket.socket | None = None

    async def connect(self, address: str, port: int) -> None:
        """Once, before the first request. OSError if no server accepts there."""
        loop = asyncio.get_running_loop()
        plug = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            plug.setblocking(False)
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(plug, (address, port))
        except BaseException:
            plug.close()
            raise
        self._plug, self._send, self._recv = plug, plug.send, plug.recv
        self._hub = Hub.of(loop)
        self._hub.add(plug.fileno(), self)

    def ask(self, question: bytes) -> None:
        """Sends a request, in one write if the kernel accepts it. ConnectionError without one."""
        if self._plug is None:
            raise ConnectionError("there is no connection")
        try:
            sent = self._send(question)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        if sent < len(question):
            self._unsent = question[sent:]
            self._hub.also_writable(self._plug.fileno(), wanted=True)

    def read_on(self) -> None:
        """Reads what has arrived."""
        try:
            data = self._recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data in USUAL and not self._part:
            self._on_answer(data)
        elif not data:
            self.close()
        else:
            self._take(self._part + data)

    def _take(self, data: bytes) -> None:
        """Adds data to what has arrived since the request."""
        if whole(data):
            self._part = b""
            self._on_answer(data)
        else:
            self._part = data

    def write_on(self) -> None:
        """Sends what the kernel did not accept at once."""
        rest, self._unsent = self._unsent, b""
        assert self._plug is not None, "only connected lines are in the hub"
        self._hub.also_writable(self._plug.fileno(), wanted=False)
        self.ask(rest)

    def close(self) -> None:
        """Closes the connection, if there is one. `on_end` is called a little later."""
        plug, self._plug = self._plug, None
        if plug is None:
            return
        self._hub.remove(plug.fileno())
        plug.close()
        asyncio.get_running_loop().call_soon(self._on_end)


def whole(data: bytes) -> bool:
    """Whether this is one complete response: a status, an error, a number, or a string."""
    if not data.endswith(b"\r\n"):
        return False
    if not data.startswith(b"$"):
        return True
    head = data.index(b"\r\n")
    size = int(data[1:head])
    return size < 0 or len(data) >= head + 4 + size
