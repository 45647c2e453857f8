"""python-etcd's Lock, over etcd's API version 2."""

from __future__ import annotations

import math

import etcd

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.etcd import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ANSWER_WITHIN_S = 2
ERRORS = ((etcd.EtcdLockExpired, Status.FAIL),)


class Subject:
    """A client of one member, another one per client."""

    def __init__(self, setup: ClientSetup) -> None:
        address = setup.servers[setup.process % len(setup.servers)][1]
        self._client = etcd.Client(host=address, port=PORT, read_timeout=ANSWER_WITHIN_S)

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        self._ttl = math.ceil(lease_s) if lease_s else None
        return etcd.Lock(self._client, name)

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        timeout = math.ceil(wait_s or 0)
        return bool(lock.acquire(blocking=wait_s != 0, lock_ttl=self._ttl, timeout=timeout))

    def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        held = lock.is_acquired
        return bool(held and lock.acquire(blocking=False, lock_ttl=self._ttl))

    def release(self, lock: LibraryLock) -> None:
        lock.release()
