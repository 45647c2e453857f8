"""kazoo's Semaphore, of which an object takes one lease; a plain acquire waits for all of them."""

from __future__ import annotations

import time
from contextlib import suppress

from kazoo.exceptions import LockTimeout, NoNodeError

from holdfast.clusters.libraries.adapters import kazoo_session
from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.zookeeper.contenders import any_left

ERRORS = kazoo_session.ERRORS


class Subject(kazoo_session.Notified):
    """Each attempt takes its own leases."""

    most_permits = 1

    def lock(
        self, name: str, attempt: str, lease_s: float | None, wait_s: float | None,
        permits: int = 1, limit: int = 1,
    ) -> LibraryLock:  # fmt: skip
        path, count = f"/locks/{name}", 1
        if limit == 1:
            with suppress(NoNodeError, ValueError):
                # The library keeps in this node how many leases there are.
                limit = count = int(self.client.get(path)[0])
        leases = [self.client.Semaphore(path, attempt, max_leases=limit) for _ in range(count)]
        return attempt, name, leases

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        attempt, name, leases = lock
        until_s = time.monotonic() + (wait_s or 0)
        for lease in leases:
            left_s = None if wait_s is None else max(0.0, until_s - time.monotonic())
            with suppress(LockTimeout):
                if lease.acquire(blocking=wait_s != 0, timeout=left_s or None):
                    continue
            for one in leases:
                one.release()
            nodes = [one.create_path.rpartition("/")[2] for one in leases]
            if any_left(self.client, lease.path, nodes, kazoo_session.ANSWER_WITHIN_S):
                raise kazoo_session.NodeLeft(f"a node of {lease.path} is left")
            return False
        self.began(attempt, name)
        return True

    def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        return self.holds(lock[0]) and all(lease.is_acquired for lease in lock[2])

    def release(self, lock: LibraryLock) -> bool:
        held = self.ended(lock[0])
        released = [lease.release() for lease in lock[2]]
        return all(released) and held
