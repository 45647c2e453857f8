"""The commands of memcached's text protocol that a lock needs; standard library only."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import quote

from holdfast.clusters.systems.memcached import PORT
from holdfast.harness.core.operations import Status

ANSWER_WITHIN_S = 1.0
ENDED = -1
"""a time to live that has already ended: a value stored with it is gone at once"""
NO_EFFECT = (b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR")
"""begin responses after which the request has certainly had no effect"""


class Failed(Exception):
    """A request without a usable response; `outcome`: whether it may have had an effect."""

    def __init__(self, why: str, outcome: Status) -> None:
        super().__init__(why)
        self.outcome = outcome


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """A value as read, with the number of the write that stored it."""

    value: bytes
    version: int


class Memcached:
    """A connection to one server, which the first request opens, and the next one after an error.

    All methods raise Failed.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._responses: BinaryIO | None = None

    def add(self, key: str, value: bytes, ttl_s: int) -> bool:
        """Whether the key was absent, and is stored now."""
        words = f"add {_key(key)} 0 {ttl_s} {len(value)}"
        return self._ask(words, value, (b"STORED", b"NOT_STORED")) == b"STORED"

    def get(self, key: str) -> Item | None:
        """The key's item, None without one."""
        first = self._ask(f"gets {_key(key)}", None, (b"VALUE", b"END"))
        if first == b"END":
            return None
        _, _, _, length, version = first.split()
        value = self._line()
        if len(value) != int(length) or self._line() != b"END":
            raise self._broken("not a response to gets")
        return Item(value=value, version=int(version))

    def replace(self, key: str, value: bytes, ttl_s: int, version: int) -> bool:
        """Whether the key still had the item of that version, and has this one now."""
        words = f"cas {_key(key)} 0 {ttl_s} {len(value)} {version}"
        return self._ask(words, value, (b"STORED", b"EXISTS", b"NOT_FOUND")) == b"STORED"

    def delete(self, key: str) -> bool:
        """Whether there was such a key."""
        return self._ask(f"delete {_key(key)}", None, (b"DELETED", b"NOT_FOUND")) == b"DELETED"

    def close(self) -> None:
        """Ends the connection."""
        if self._socket is not None:
            self._socket.close()
        if self._responses is not None:
            self._responses.close()
        self._socket = self._responses = None

    def _ask(self, words: str, value: bytes | None, expected: tuple[bytes, ...]) -> bytes:
        """The first line of the response."""
        if self._socket is None:
            try:
                self._socket = socket.create_connection((self._address, PORT), ANSWER_WITHIN_S)
            except OSError as error:
                raise Failed(f"never sent: {error}", Status.FAIL) from error
            self._responses = self._socket.makefile("rb")
        data = b"" if value is None else value + b"\r\n"
        try:
            self._socket.sendall(words.encode() + b"\r\n" + data)
        except OSError as error:
            raise self._broken(str(error)) from error
        line = self._line()
        if line.startswith(expected):
            return line
        self.close()
        outcome = Status.FAIL if line.startswith(NO_EFFECT) else Status.INFO
        raise Failed(line.decode(errors="replace"), outcome)

    def _line(self) -> bytes:
        """A line of the response; values of a lock have no line breaks."""
        try:
            line = b"" if self._responses is None else self._responses.readline()
        except OSError as error:
            raise self._broken(str(error)) from error
        if not line.endswith(b"\r\n"):
            raise self._broken("connection closed")
        return line[:-2]

    def _broken(self, why: str) -> Failed:
        self.close()
        return Failed(f"no response: {why}", Status.INFO)


def _key(lock: str) -> str:
    """A key has no spaces and at most 250 bytes; the server refuses a longer one."""
    return quote(lock, safe="")
