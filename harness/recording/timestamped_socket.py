"""Sockets with the kernel's timestamps of when a request left and when its response arrived.

A request cannot take effect before its last byte was sent, nor after its response arrived. A busy
interpreter records both edges of a call milliseconds off; the kernel does not. `install` replaces
`socket.socket`, which every library uses; libraries stay unmodified. For a library that bypasses it
(its own event loop in C, another protocol library, TLS over a blocking socket) there are no
timestamps, and the edges of the call apply. Standard library only.
"""

from __future__ import annotations

import _socket
import contextlib
import contextvars
import functools
import socket
import struct
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.harness.core.ports import CLIENT

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

SO_TIMESTAMPING = 37
TX_SOFTWARE, RX_SOFTWARE, SOFTWARE, OPT_ID, OPT_TSONLY = 1 << 1, 1 << 3, 1 << 4, 1 << 7, 1 << 11
WANTED = TX_SOFTWARE | RX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY
"""Software timestamps, identified by the number of the last byte sent, without packet content."""

MSG_ERRQUEUE = 0x2000
LONGEST_SEND = 1400
"""Data of one packet leaves at once. The first byte of a longer send precedes its timestamp."""

_SPACE = socket.CMSG_SPACE(48) + socket.CMSG_SPACE(64)
_SECONDS = struct.Struct("qq")
_NUMBER = struct.Struct("12xI")
"""of a struct sock_extended_err: ee_data, which holds the number of the byte"""


class Edges(NamedTuple):
    """Of one op, ns on the kernel's wall clock: its first send, its last response. 0: unknown."""

    sent: int
    arrived: int


NO_EDGES = Edges(0, 0)


class _Closed(NamedTuple):
    """What counts of a socket that is closed."""

    arrived: int
    spoilt: bool


class Span:
    """The timestamps of one op: of what its thread or task sent within its block."""

    __slots__ = ("_before", "begun", "sent", "sockets")

    def __init__(self) -> None:
        self.begun = False
        self.sent = 0
        self.sockets: list[StampedSocket | _Closed] = []

    def __enter__(self) -> Span:
        self._before = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._before)

    def edges(self) -> Edges:
        """The edges of the op; none if a socket was used whose timestamps are unreliable for it.

        A response that the kernel did not timestamp, as in the first milliseconds after the first
        socket that requested it, leaves the arrival unknown and the send as it is.
        """
        arrived = [plug.arrived for plug in self.sockets]
        if any(plug.spoilt for plug in self.sockets):
            return NO_EDGES
        return Edges(self.sent, 0 if min(arrived, default=0) < 0 else max(arrived, default=0))


class WideSpan(Span):
    """An op whose client sends from its own threads: all timestamped sockets count for it,
    also those that are closed before it ends."""

    __slots__ = ("_closed",)

    def __init__(self) -> None:
        super().__init__()
        self._closed: list[_Closed] = []

    def __enter__(self) -> Span:
        _wide.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _wide.remove(self)

    def ended(self, plug: StampedSocket) -> None:
        """Called before a socket is closed, with which its timestamps would be lost."""
        self._closed.append(_Closed(plug.arrived, plug.spoilt))

    def edges(self) -> Edges:
        self.sockets = [*_plugs, *self._closed]
        return super().edges() if self.sent else NO_EDGES


_current: contextvars.ContextVar[Span | None] = contextvars.ContextVar("op", default=None)
_wide: list[WideSpan] = []
_plugs: weakref.WeakSet[StampedSocket] = weakref.WeakSet()


def span(wire: str) -> Span:
    """The op of a client that reports its sends (`ports.WiredLockClient`), within its block."""
    return WideSpan() if wire == CLIENT else Span()


class StampedSocket(socket.socket):
    """A stream socket over IP with timestamps from its first byte on; others are unchanged.

    arrived   timestamp of the last bytes that were read, 0: none yet, -1: they had none
    spoilt    it was used in a way that leaves timestamps without their op
    """

    __slots__ = ("_armed", "_errors", "_owed", "_sending", "_sent", "arrived", "spoilt")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._errors: _socket.socket | None = None
        super().__init__(*args, **kwargs)
        stream = self.family in (socket.AF_INET, socket.AF_INET6) and self.type & 0xF == 1
        self._armed = not stream
        self._owed: dict[int, list[Span]] = {}
        self._sending = False
        self._sent = 0
        self.arrived = 0
        self.spoilt = False

    def _arm(self) -> None:
        """Enables timestamps, once connected: the kernel counts bytes from then on."""
        self._armed = True
        try:
            self.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, WANTED)
        except OSError:
            return
        # A timeout makes Python wait for readability before it asks for an error. This second
        # object has none; it never owns the number.
        self._errors = _socket.socket(fileno=self.fileno())
        _plugs.add(self)

    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:
        if not self._armed:
            self._arm()
        if self._errors is None:
            return super().send(data, flags)
        return self._stamped(_socket.socket.send, data, flags)

    def sendall(self, data: ReadableBuffer, flags: int = 0, /) -> None:
        if not self._armed:
            self._arm()
        if self._errors is None:
            super().sendall(data, flags)
            return
        self._stamped(_socket.socket.sendall, data, flags)

    def _stamped(self, send: Callable[..., int | None], data: Any, flags: int) -> int:
        """Sends, and reads the timestamp: on a local network it is there when the call returns."""
        size = len(data)
        if self._sending:
            self.spoilt = True
        self._sending = True
        mine = self._joining(size)
        sent = 0
        try:
            told = send(self, data, flags)
            sent = size if told is None else told
        finally:
            self._sending = False
            self._sent += sent
            # The rest is sent later, by another call.
            self.spoilt |= sent != size
        last = (self._sent - 1) & 0xFFFFFFFF
        if mine:
            self._owed[last] = mine
        self._drain(last)
        return sent

    def _joining(self, size: int) -> list[Span]:
        """The ops whose first send this is."""
        current = _current.get()
        if not _wide and (current is None or (current.begun and self in current.sockets)):
            return []
        if current is not None and self not in current.sockets:
            current.sockets.append(self)
        mine = [one for one in (current, *_wide) if one is not None and not one.begun]
        for one in mine:
            one.begun = True
        return mine if size <= LONGEST_SEND else []

    def _drain(self, last: int = -1) -> None:
        """Reads timestamps from the error queue, up to the awaited one."""
        errors = self._errors
        assert errors is not None, "only armed sockets are drained"
        try:
            while True:
                _, notes, _, _ = errors.recvmsg(0, _SPACE, MSG_ERRQUEUE)
                stamp, number = 0, -1
                for level, kind, raw in notes:
                    if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING:
                        seconds, rest = _SECONDS.unpack_from(raw)
                        stamp = seconds * 1_000_000_000 + rest
                    elif level != socket.SOL_SOCKET:
                        (number,) = _NUMBER.unpack_from(raw)
                for one in self._owed.pop(number, ()) if stamp else ():
                    one.sent = stamp
                if number == last:
                    return
        except OSError:
            return

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if self._errors is None or flags:
            return super().recv(size, flags)
        if self._owed:
            self._drain()
        data, notes, _, _ = super().recvmsg(size, _SPACE)
        if data:
            self._note(notes)
        return data

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        if self._errors is None or flags:
            return super().recv_into(buffer, nbytes, flags)
        if self._owed:
            self._drain()
        space = memoryview(buffer)[:nbytes] if nbytes else buffer
        got, notes, _, _ = super().recvmsg_into([space], _SPACE)
        if got:
            self._note(notes)
        return got

    def _note(self, notes: list[tuple[int, int, bytes]]) -> None:
        for level, kind, raw in notes:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING:
                seconds, rest = _SECONDS.unpack_from(raw)
                if seconds:
                    self.arrived = seconds * 1_000_000_000 + rest
                    return
        self.arrived = -1

    def detach(self) -> int:
        """Code that takes the descriptor, such as TLS, gets an unchanged socket."""
        if self._errors is not None:
            with contextlib.suppress(OSError):
                self.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, 0)
        self._disown()
        return super().detach()

    def _disown(self) -> None:
        errors, self._errors = self._errors, None
        if errors is not None:
            errors.detach()
            for one in _wide:
                one.ended(self)

    def _real_close(self, *args: object) -> None:
        self._disown()
        super()._real_close(*args)  # type: ignore[misc]  # the stubs leave it out

    def __del__(self) -> None:
        # First the object that must not close the descriptor, then the one that does.
        self._disown()
        if self.fileno() >= 0:
            _socket.socket.close(self)


def _spoiling(name: str) -> Callable[..., object]:
    """A method of a socket that leaves timestamps without their op."""
    plain = getattr(socket.socket, name)

    @functools.wraps(plain)
    def method(self: StampedSocket, *args: object, **kwargs: object) -> object:
        self.spoilt = True
        return plain(self, *args, **kwargs)

    return method


for _name in ("recvfrom", "recvfrom_into", "recvmsg", "recvmsg_into", "sendmsg", "sendto",
              "sendfile", "dup"):  # fmt: skip
    setattr(StampedSocket, _name, _spoiling(_name))


def install() -> None:
    """From now on every library of this process creates such sockets."""
    socket.socket = StampedSocket  # type: ignore[misc]  # where all libraries find it
