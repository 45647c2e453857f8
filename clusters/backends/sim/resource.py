"""The protected resource in the simulator: its own rules of admission behind a simulated port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from holdfast.clusters.systems.reference.client.connection import Link, NoAnswer, NotSent
from holdfast.clusters.systems.reference.wire.frames import Frame, Framed
from holdfast.harness.client.resource_replies import Reply, answered, asked
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import Status

PORT = 7300
TIMEOUT_S = 2.0


async def serve(decide: Callable[[Mapping[str, Json]], Mapping[str, Json]], address: str) -> None:
    """Opens its port; it answers until its process ends. `decide` is that of the real resource."""

    def on_frame(wire: Framed, frame: Frame) -> None:
        wire.send({"id": frame["id"], **decide(frame)})

    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Framed(on_frame, lambda wire, reason: None), address, PORT)


class ResourceLink:
    """A client's way to the resource: one request at a time, as on a host."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._link = Link(lambda event: None)
        self._turn = asyncio.Lock()

    async def read(self, key: str, *, op: int, attempt: int, token: int) -> Reply:
        """Read the version of a key."""
        return await self._ask(asked("read", key, op=op, attempt=attempt, token=token))

    async def write(
        self, key: str, *, op: int, attempt: int, token: int, base: int, once: bool = False
    ) -> Reply:
        """As `workloads.resource.client`."""
        sent = {"op": op, "attempt": attempt, "token": token, "base": base}
        return await self._ask(asked("write", key, once=once, **sent))

    async def _ask(self, request: dict[str, Json]) -> Reply:
        async with self._turn:
            try:
                if not self._link.open:
                    await self._link.connect(self._address, TIMEOUT_S, PORT)
                answer = await self._link.ask(request, TIMEOUT_S)
            except NotSent as error:
                return Reply(outcome=Status.FAIL, error=str(error))
            except NoAnswer as error:
                self._link.close(str(error))
                return Reply(outcome=Status.INFO, error=str(error))
            return answered(answer)
