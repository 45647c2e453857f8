"""etcd3-py's Lock, which keeps its lease alive in a thread."""

from __future__ import annotations

import math
from typing import Any

import etcd3
from etcd3.stateful.lock import EtcdLockAcquireTimeout

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

    def lock(self, name: str, attempt: str, lease_s: float | None, wait_s: float | None) -> Any:
        return self._client.Lock(lock_name=name, lock_ttl=math.ceil(lease_s or 60))

    def acquire(self, lock: Any, wait_s: float | None) -> bool:
        timeout = None if wait_s is None else math.ceil(wait_s)
        return lock.acquire(block=wait_s != 0, timeout=timeout) is not None

    def release(self, lock: Any) -> None:
        lock.release()
