"""Client of locks by files: it polls, because a blocked system call cannot be cancelled."""

from __future__ import annotations

from holdfast.clusters.systems.flock.files import lock_file, path_of
from holdfast.clusters.systems.polling import EXCLUSIVE_ONLY, HELD, Poller
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.operations import Answer, Grant, Mode, Status, Terms
from holdfast.harness.core.ports import ClientSetup

POLL_NS = (2 * MILLISECOND, 12 * MILLISECOND)
LOST = Answer(outcome=Status.NOT_OWNER, error="the file is not locked by this attempt")


class FileLock:
    """A BlockingLockClient; `client` makes one."""

    blocking = True

    def __init__(self, setup: ClientSetup) -> None:
        self._folder = setup.folder
        self._poller = Poller(setup, "file polls", POLL_NS, errors_end=True)
        via = setup.options.get("via", "flock")
        self._leases = via == "excl"
        self._file = lock_file(via, inspect=setup.options.get("inspect") == "yes")

    def open(self) -> None:
        """Creates the folder of the lock files."""
        path_of(self._folder, "l").parent.mkdir(parents=True, exist_ok=True)

    def acquire(self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode) -> Answer:
        """Polls until it is granted or the wait is over."""
        if mode is Mode.PERMITS or (self._leases and mode is not Mode.EXCLUSIVE):
            return EXCLUSIVE_ONLY
        shared, path = mode is Mode.SHARED, path_of(self._folder, lock)

        def poll() -> Answer:
            try:
                if self._file.take(path, attempt, ttl_ns, shared=shared):
                    return Answer(outcome=Status.OK, ttl_ns=ttl_ns if self._leases else 0)
            except OSError as error:
                # Nothing is held: a descriptor was closed, or the file is not ours to remove.
                outcome = Status.INFO if self._leases else Status.FAIL
                return Answer(outcome=outcome, error=str(error))
            return HELD

        return self._poller.until(lock, attempt, wait_ns, poll)

    def acquire_on(
        self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, terms: Terms
    ) -> Answer:
        """The same on terms, of which it has the mode."""
        asked = {"attempt": attempt, "ttl_ns": ttl_ns, "wait_ns": wait_ns}
        return self.acquire(lock, **asked, mode=terms.mode)

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Looks whether the file is still locked; a lease begins again."""
        try:
            held = self._file.keep(path_of(self._folder, grant.lock), grant.attempt)
        except OSError as error:
            return Answer(outcome=Status.INFO, error=str(error))
        return Answer(outcome=Status.OK, ttl_ns=grant.ttl_ns) if held else LOST

    def release(self, grant: Grant) -> Answer:
        """Unlocks the file, or removes it."""
        try:
            held = self._file.free(path_of(self._folder, grant.lock), grant.attempt)
        except OSError as error:
            return Answer(outcome=Status.INFO, error=str(error))
        return Answer(outcome=Status.OK) if held else LOST

    def close(self) -> None:
        """Closes every file; the kernel ends its locks."""
        self._file.close()


def client(setup: ClientSetup) -> FileLock:
    """A client; nothing is opened yet."""
    return FileLock(setup)
