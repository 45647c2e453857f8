"""python-etcd3's Lock over gRPC."""

from __future__ import annotations

import math

import etcd3

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.etcd import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ANSWER_WITHIN_S = 2
ERRORS: tuple[tuple[type[Exception], Status], ...] = ()


class Subject:
    """A client of one member, another one per client."""

    def __init__(self, setup: ClientSetup) -> None:
        address = setup.servers[setup.process % len(setup.servers)][1]
        self._client = etcd3.client(host=address, port=PORT, timeout=ANSWER_WITHIN_S)

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return self._client.lock(name, ttl=math.ceil(lease_s or 60))

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        return bool(lock.acquire(timeout=wait_s))

    def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        return bool(lock.refresh()[0].TTL > 0)

    def release(self, lock: LibraryLock) -> bool:
        return bool(lock.release())
