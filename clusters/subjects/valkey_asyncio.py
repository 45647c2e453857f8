"""valkey-py's asyncio Lock, with every setting as the library ships it but a socket timeout."""

from __future__ import annotations

from typing import Any

import valkey.asyncio as valkey
from valkey.exceptions import LockError, LockNotOwnedError

from holdfast.clusters.systems.redis import PORT
from holdfast.harness.events import Status
from holdfast.harness.ports import ClientSetup

ANSWER_WITHIN_S = 1.0
ERRORS = ((LockNotOwnedError, Status.NOT_OWNER),)


class Subject:
    """One client with its pool, as an application has it."""

    asyncio = True

    def __init__(self, setup: ClientSetup) -> None:
        address = setup.servers[0][1]
        self._valkey = valkey.Valkey(host=address, port=PORT, socket_timeout=ANSWER_WITHIN_S)

    async def open(self) -> None:
        await self._valkey.ping()

    def lock(self, name: str, attempt: str, lease_s: float | None, wait_s: float | None) -> Any:
        return self._valkey.lock(
            name, timeout=lease_s, sleep=0.01, blocking_timeout=wait_s, thread_local=False
        )

    async def acquire(self, lock: Any, wait_s: float | None) -> bool:
        return bool(await lock.acquire(blocking=wait_s != 0, blocking_timeout=wait_s))

    async def renew(self, lock: Any, lease_s: float) -> bool:
        try:
            return bool(await lock.reacquire())
        except LockNotOwnedError:
            return False

    async def release(self, lock: Any) -> bool:
        try:
            await lock.release()
        except LockError:
            return False
        return True

    async def close(self) -> None:
        await self._valkey.close()
