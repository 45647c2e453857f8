"""Client of the protected resource: one connection, one request at a time.

A request without a response is INFO, and its connection is closed: a late response must never be
read as the response to the next request.
"""

from __future__ import annotations

import asyncio
import json

from holdfast.harness.client.resource_replies import PORT, Reply, answered, asked
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import Status

TIMEOUT_S = 2.0


class ResourceClient:
    """Speaks JSON lines to the resource. Reconnects by itself; never raises for the network."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()

    async def read(self, key: str, *, op: int, attempt: int, token: int) -> Reply:
        """Read the version of a key."""
        return await self._ask(asked("read", key, op=op, attempt=attempt, token=token))

    async def write(
        self, key: str, *, op: int, attempt: int, token: int, base: int, once: bool = False
    ) -> Reply:
        """Write based on version `base` (-1: on any version).

        once: an idempotent command, identified by its key, from any client."""
        sent = {"op": op, "attempt": attempt, "token": token, "base": base}
        return await self._ask(asked("write", key, once=once, **sent))

    async def _ask(self, request: dict[str, Json]) -> Reply:
        async with self._turn:
            sent = False
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    if self._streams is None:
                        self._streams = await asyncio.open_connection(self._address, PORT)
                    reader, writer = self._streams
                    sent = True
                    writer.write(json.dumps(request).encode() + b"\n")
                    line = await reader.readuntil(b"\n")
                return answered(json.loads(line))
            except (OSError, EOFError, ValueError, KeyError) as error:
                self._drop()
                outcome = Status.INFO if sent else Status.FAIL
                return Reply(outcome=outcome, error=f"{type(error).__name__}: {error}")
            except asyncio.CancelledError:
                self._drop()
                raise

    def _drop(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def connect(address: str) -> ResourceClient:
    """A client of the resource at an address."""
    return ResourceClient(address)
