"""etcd3gw: a lock by a transaction over the JSON gateway; it tries once and never waits."""

from __future__ import annotations

import math
import time

from etcd3gw import client
from etcd3gw.exceptions import ConnectionFailedError

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.etcd import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

ANSWER_WITHIN_S = 2
POLL_S = 0.05
ERRORS = ((ConnectionFailedError, Status.INFO),)


class Subject:
    """A client of one member, another one per client."""

    def __init__(self, setup: ClientSetup) -> None:
        address = setup.servers[setup.process % len(setup.servers)][1]
        self._client = client(host=address, port=PORT, api_path="/v3/", timeout=ANSWER_WITHIN_S)

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None
    ) -> LibraryLock:
        return self._client.lock(name, ttl=math.ceil(lease_s or 10))

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        until_s = time.monotonic() + (wait_s if wait_s is not None else 1e9)
        while not lock.acquire():
            if time.monotonic() >= until_s:
                return False
            time.sleep(POLL_S)
        return True

    def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        return int(lock.refresh()) > 0

    def release(self, lock: LibraryLock) -> bool:
        return bool(lock.release())
