"""kazoo's Lock; a renewal checks whether it is still acquired."""

from __future__ import annotations

import contextlib

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.zookeeper import PORT
from holdfast.clusters.systems.zookeeper.contenders import left_behind
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ANSWER_WITHIN_S = 2
ERRORS: tuple[tuple[type[Exception], Status], ...] = ()


class NodeLeft(Exception):
    """The library gave up, and the node of its attempt may still become the holder."""


class Subject:
    """One session, whose timeout is the lease."""

    def __init__(self, setup: ClientSetup) -> None:
        hosts = ",".join(f"{address}:{PORT}" for _, address in setup.servers)
        self._client = KazooClient(hosts=hosts, timeout=setup.lease_ns / 1e9)
        self._client.start()

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return self._client.Lock(f"/locks/{name}", attempt)

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        with contextlib.suppress(LockTimeout):
            if lock.acquire(blocking=wait_s != 0, timeout=wait_s or None):
                return True
        if left_behind(self._client, lock, ANSWER_WITHIN_S):
            raise NodeLeft(f"a node of {lock.prefix} is left")
        return False

    def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        return bool(lock.is_acquired)

    def release(self, lock: LibraryLock) -> bool:
        return bool(lock.release())

    def close(self) -> None:
        self._client.stop()
        self._client.close()
