"""One etcd server over its JSON gateway: HTTP/1.1 with keep-alive, one request at a time each.

The gateway writes 64-bit numbers as texts, omits zeros, and encodes bytes in base64. Closing a
connection tells the server that the response is no longer awaited.

A server with authentication refuses a request without a valid token before it does anything. Then
`ask` logs in, if it has a user for that, and sends the request once more.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.harness.core.json_value import Json

Body = dict[str, Any]

MOST_BYTES = 1 << 20
NO_USER = "user name is empty"
INVALID_TOKEN = "invalid auth token"
"""How a refusal ends that demands a login; it begins with "etcdserver: " or "auth: "."""
LOGIN = "/v3/auth/authenticate"


@dataclass(frozen=True, slots=True)
class User:
    """A user of an etcd cluster."""

    name: str
    password: str


class NotSent(Exception):
    """The request was never sent: certainly no effect."""


class NoAnswer(Exception):
    """The request was sent and no response came: it may take effect at any time, or never."""


class Refused(Exception):
    """The server responded with an error; the text is its own."""


class Server:
    """One server, by its address. `ask` may be called while an earlier call still waits.

    user   as whom it logs in where the server demands that
    """

    def __init__(self, address: str, port: int, user: User | None = None) -> None:
        self._address, self.port = address, port
        self._user, self._token = user, ""
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, path: str, body: Mapping[str, Json], within_s: float) -> Body:
        """The response to one POST, which takes effect once at most. Errors: NotSent, NoAnswer,
        Refused."""
        until_s = asyncio.get_running_loop().time() + within_s
        try:
            return await self._once(path, body, until_s)
        except Refused as error:
            if self._user is None or not str(error).endswith((NO_USER, INVALID_TOKEN)):
                raise
        self._token = ""
        login = {"name": self._user.name, "password": self._user.password}
        try:
            self._token = str((await self._once(LOGIN, login, until_s))["token"])
        except (NotSent, NoAnswer, Refused) as error:
            raise NotSent(f"no token: {error}") from error
        return await self._once(path, body, until_s)

    async def _once(self, path: str, body: Mapping[str, Json], until_s: float) -> Body:
        reader, writer = await self._connection(until_s)
        try:
            async with asyncio.timeout_at(until_s):
                writer.write(request(self._address, path, body, self._token))
                await writer.drain()
                status, answer, kept = await response(reader)
        except (OSError, EOFError, ValueError, LookupError, asyncio.LimitOverrunError) as error:
            writer.close()
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        except BaseException:
            writer.close()
            raise
        if kept:
            self._idle.append((reader, writer))
        else:
            writer.close()
        reason = refusal(status, answer)
        if reason:
            raise Refused(reason)
        return answer

    async def first(
        self,
        path: str,
        body: Mapping[str, Json],
        within_s: float,
        wanted: Callable[[Body], bool],
        *,
        idle: bool = False,
    ) -> Body:
        """The first wanted message of a response that has no end. Errors: NotSent, NoAnswer,
        Refused. `idle`: `within_s` is the longest time without a message, not that of the call."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        reader, writer = await self._connection(until_s)
        try:
            async with asyncio.timeout_at(until_s) as bound:
                writer.write(request(self._address, path, body, self._token))
                await writer.drain()
                status, _ = await _head(reader)
                async for message in _messages(reader):
                    if idle:
                        bound.reschedule(loop.time() + within_s)
                    if refusal(status, message):
                        raise Refused(refusal(status, message))
                    if wanted(message):
                        return message
        except (OSError, EOFError, ValueError, LookupError, asyncio.LimitOverrunError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        finally:
            writer.close()
        raise NoAnswer("the response has ended")

    def close(self) -> None:
        """Closes the idle connections."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _connection(
        self, until_s: float
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        try:
            async with asyncio.timeout_at(until_s):
                return await asyncio.open_connection(self._address, self.port, limit=MOST_BYTES)
        except OSError as error:
            raise NotSent(f"no connection: {str(error) or 'in time'}") from error


def request(host: str, path: str, body: Mapping[str, Json], token: str = "") -> bytes:
    """A POST of a JSON object, as bytes; with the token of a login if there is one."""
    content = json.dumps(body).encode()
    authorization = f"Authorization: {token}\r\n" if token else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"{authorization}Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def response(reader: asyncio.StreamReader) -> tuple[int, Body, bool]:
    """(status, JSON object, whether the connection can be used again). Errors: ValueError, EOF."""
    status, fields = await _head(reader)
    if fields.get("transfer-encoding") == "chunked":
        content = await _chunks(reader)
    elif "content-length" in fields:
        content = await reader.readexactly(int(fields["content-length"]))
    else:
        raise ValueError("an answer without a length")
    answer = json.loads(content) if content.strip() else {}
    if not isinstance(answer, dict):
        raise ValueError("an answer that is no JSON object")
    return status, answer, fields.get("connection") != "close"


async def _head(reader: asyncio.StreamReader) -> tuple[int, Mapping[str, str]]:
    """(status, fields by their names in lower case) of a response."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip().lower()
    return int(head[0].split(" ", 2)[1]), fields


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[Body]:
    """The JSON objects of a chunked body, which has one per line."""
    rest = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        if len(rest) + size > MOST_BYTES:
            raise ValueError("a message that is too long")
        rest += await reader.readexactly(size)
        await reader.readexactly(2)
        *lines, rest = rest.split(b"\n")
        for line in lines:
            yield json.loads(line)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """A chunked body; trailers (errors have them) are skipped."""
    content = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        if len(content) + size > MOST_BYTES:
            raise ValueError("an answer that is too long")
        content += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise ValueError("a chunk without an end")
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return content


def refusal(status: int, answer: Mapping[str, object]) -> str:
    """The error in a response; empty if it is a result."""
    error = answer.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or error)
    if error:
        return str(error)
    return f"HTTP {status}" if status >= 400 else ""


def encoded(text: str) -> str:
    """A key or value as the gateway expects it."""
    return base64.b64encode(text.encode()).decode()


def number(answer: Mapping[str, Any], name: str) -> int:
    """A number of a response; 0 if it is omitted."""
    return int(answer.get(name, 0))
