"""A client's connection to one lease server: connects on demand, and again after a break."""

from __future__ import annotations

import asyncio

from holdfast.clusters.systems.reference.client.connection import Link, NoAnswer, NotSent
from holdfast.clusters.systems.reference.wire.frames import Frame

NEVER_SENT: Frame = {"is": "never-sent"}
UNANSWERED: Frame = {"is": "unanswered"}


class Remote:
    """One lease server, by its address."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._link = Link(lambda event: None)
        self._connecting = asyncio.Lock()

    async def ask(self, op: str, within_s: float, **fields: object) -> Frame:
        """The response to one request sent once, or UNANSWERED, or NEVER_SENT."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        try:
            async with asyncio.timeout_at(until_s), self._connecting:
                if not self._link.open:
                    await self._link.connect(self._address, within_s)
        except (NotSent, TimeoutError):
            return NEVER_SENT
        try:
            left_s = max(0.001, until_s - loop.time())
            return await self._link.ask({"op": op, **fields}, left_s)
        except NotSent as error:
            self._link.close(str(error))
            return NEVER_SENT
        except NoAnswer as error:
            self._link.close(str(error))
            return UNANSWERED

    def close(self) -> None:
        """Closes the connection."""
        self._link.close("closed")
