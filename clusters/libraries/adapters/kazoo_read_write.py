"""kazoo's ReadLock and WriteLock; a renewal checks that nothing was heard of a loss."""

from __future__ import annotations

import contextlib

from kazoo.exceptions import LockTimeout

from holdfast.clusters.libraries.adapters import kazoo_session
from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.zookeeper.contenders import left_behind

ERRORS = kazoo_session.ERRORS


class Subject(kazoo_session.Notified):
    """Each attempt is a contender of its own."""

    def lock(
        self,
        name: str,
        attempt: str,
        lease_s: float | None,
        wait_s: float | None,
        mode: str = "exclusive",
    ) -> LibraryLock:
        kind = self.client.ReadLock if mode == "shared" else self.client.WriteLock
        return attempt, name, kind(f"/locks/{name}", attempt)

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        attempt, name, made = lock
        with contextlib.suppress(LockTimeout):
            if made.acquire(blocking=wait_s != 0, timeout=wait_s or None):
                self.began(attempt, name)
                return True
        if left_behind(self.client, made, kazoo_session.ANSWER_WITHIN_S):
            raise kazoo_session.NodeLeft(f"a node of {made.prefix} is left")
        return False

    def renew(self, lock: LibraryLock, lease_s: float) -> bool:
        attempt, _, made = lock
        return made.is_acquired and self.holds(attempt)

    def release(self, lock: LibraryLock) -> bool:
        attempt, _, made = lock
        held = self.ended(attempt)
        return bool(made.release()) and held
