"""etcd3-py's Lock, which keeps its lease alive in a thread."""

from __future__ import annotations

import math

import etcd3
from etcd3.stateful.lock import EtcdLockAcquireTimeout

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.etcd import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ANSWER_WITHIN_S = 2
ERRORS = ((EtcdLockAcquireTimeout, Status.FAIL),)


class Subject:
    """A client of one member, another one per client."""

    def __init__(self, setup: ClientSetup) -> None:
        address = setup.servers[setup.process % len(setup.servers)][1]
        self._client = etcd3.Client(address, PORT, timeout=ANSWER_WITHIN_S)

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return self._client.Lock(lock_name=name, lock_ttl=math.ceil(lease_s or 60))

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        timeout = None if wait_s is None else math.ceil(wait_s)
        return lock.acquire(block=wait_s != 0, timeout=timeout) is not None

    def release(self, lock: LibraryLock) -> None:
        lock.release()
