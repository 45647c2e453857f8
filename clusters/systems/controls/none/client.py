"""Client of the control without a lock: grants every request at once, without a server."""

from __future__ import annotations

from holdfast.harness.core.operations import Answer, Grant, Mode, Status
from holdfast.harness.core.ports import ClientSetup


class NoLock:
    """Every call succeeds; nothing is excluded."""

    async def open(self) -> None:
        """There is no server to connect to."""

    async def acquire(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode
    ) -> Answer:
        return Answer(outcome=Status.OK)

    async def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        return Answer(outcome=Status.OK)

    async def release(self, grant: Grant) -> Answer:
        return Answer(outcome=Status.OK)

    async def close(self) -> None:
        """Nothing was opened."""


def client(setup: ClientSetup) -> NoLock:
    """A client without a lock."""
    return NoLock()
