"""Client of a lock that is the lease of a blob: one lease id per attempt, polled.

The service keeps the id of an expired lease until the blob is leased again, so that a renewal or
release that succeeds proves that no other attempt had the lease since the grant.
"""

from __future__ import annotations

from holdfast.clusters.systems.azure_blob import INFINITE
from holdfast.clusters.systems.azure_blob.blobs import ABSENT, HELD, NOT_OURS, Blobs
from holdfast.clusters.systems.failed_request import Failed
from holdfast.clusters.systems.polling import EXCLUSIVE_ONLY, Poller
from holdfast.clusters.systems.polling import HELD as IS_HELD
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.operations import Answer, Grant, Mode, Status
from holdfast.harness.core.ports import CALL, ClientSetup

POLL_NS = (20 * MILLISECOND, 80 * MILLISECOND)


class BlobLease:
    """A BlockingLockClient; `client` makes one."""

    blocking = True
    wire = CALL

    def __init__(self, setup: ClientSetup, blobs: Blobs) -> None:
        self._name = setup.name
        self._poller = Poller(setup, "azure polls", POLL_NS)
        self._blobs = blobs
        self._timed = setup.options.get("leases", "timed") == "timed"
        self._left: list[tuple[str, str]] = []
        """(lock, owner) of acquires and releases whose effect is unknown; released before the next
        acquire"""

    def open(self) -> None:
        """Nothing to wait for: a client that finds no blob creates it."""

    def acquire(self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode) -> Answer:
        """Polls until the blob is leased to this attempt or the wait is over."""
        if mode is not Mode.EXCLUSIVE:
            return EXCLUSIVE_ONLY
        seconds = -(-ttl_ns // SECOND) if self._timed else INFINITE

        def poll() -> Answer:
            try:
                self._release_left()
            except Failed as failed:
                return Answer(outcome=Status.FAIL, error=str(failed))
            return self._take(lock, self._owner(attempt), seconds)

        return self._poller.until(lock, attempt, wait_ns, poll)

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Restarts the lease with the duration of its acquire: a renewal cannot change it."""
        try:
            self._blobs.renew(grant.lock, self._owner(grant.attempt))
        except Failed as failed:
            return _answer(failed)
        return Answer(outcome=Status.OK, ttl_ns=grant.ttl_ns)

    def release(self, grant: Grant) -> Answer:
        """Ends the lease; if the result is unknown, the next acquire ends it again."""
        owner = self._owner(grant.attempt)
        try:
            self._blobs.release(grant.lock, owner)
        except Failed as failed:
            answer = _answer(failed)
            if answer.outcome is Status.NOT_OWNER:
                return answer
            self._left.append((grant.lock, owner))
            return Answer(outcome=Status.INFO, error=answer.error)
        return Answer(outcome=Status.OK)

    def close(self) -> None:
        """Closes the connection; a lease runs out, unless it is infinite."""
        self._blobs.close()

    def _release_left(self) -> None:
        """Raises Failed if the result is unknown again."""
        while self._left:
            try:
                self._blobs.release(*self._left[-1])
            except Failed as failed:
                if failed.code not in NOT_OURS:
                    raise
            self._left.pop()

    def _take(self, lock: str, owner: str, seconds: int) -> Answer:
        try:
            self._blobs.acquire(lock, owner, seconds)
        except Failed as failed:
            if failed.code == HELD:
                return IS_HELD
            if failed.code in ABSENT:
                return self._make(lock)
            if failed.outcome is Status.INFO:
                self._left.append((lock, owner))
            return Answer(outcome=failed.outcome, error=str(failed))
        return Answer(outcome=Status.OK, ttl_ns=seconds * SECOND if self._timed else 0)

    def _make(self, lock: str) -> Answer:
        """A poll that found no blob, and creates one for the next poll."""
        try:
            self._blobs.create(lock)
        except Failed as failed:
            return Answer(outcome=Status.FAIL, error=str(failed))
        return Answer(outcome=Status.FAIL, error="there was no blob yet")

    def _owner(self, attempt: int) -> str:
        return f"{self._name}_{attempt}"


def _answer(failed: Failed) -> Answer:
    """What an error means for a renewal or release."""
    lost = failed.code in NOT_OURS
    return Answer(outcome=Status.NOT_OWNER if lost else failed.outcome, error=str(failed))


def client(setup: ClientSetup) -> BlobLease:
    """A client of the first server."""
    return BlobLease(setup, Blobs(setup.servers[0][1]))
