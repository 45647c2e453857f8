"""A lock that is an object: created if absent, changed and deleted in the version that was read.

Without a lease it is the lock of Terraform's S3 backend: the object exists while it is held. With
one, the object has a time by its owner's wall clock, after which others write over it. With
`tokens=counter` a released object stays, without an owner, and carries the number of the last
grant. An attempt is an owner of its own, so that an object that names it was never another's since.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from holdfast.clusters.systems.failed_request import Failed
from holdfast.clusters.systems.object_lock.contents import (
    ABSENT,
    HELD,
    NO_BUCKET,
    LockBody,
    Store,
    StoredObject,
)
from holdfast.clusters.systems.polling import EXCLUSIVE_ONLY, Poller
from holdfast.clusters.systems.polling import HELD as IS_HELD
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.operations import NO_TOKEN, Answer, Grant, Mode, Status
from holdfast.harness.core.ports import CALL, ClientSetup

POLL_NS = (20 * MILLISECOND, 80 * MILLISECOND)
TRIES = 3
"""of a renewal or release whose object changes between its read and its write"""
LOST = Answer(outcome=Status.NOT_OWNER, error="the object has another owner, or is gone")


class ObjectLock:
    """A BlockingLockClient over any `Store`."""

    blocking = True
    wire = CALL

    def __init__(self, setup: ClientSetup, objects: Store) -> None:
        self._name = setup.name
        self._poller = Poller(setup, "s3 polls", POLL_NS)
        self._objects = objects
        self._timed = setup.options.get("leases", "none") == "timed"
        self._counts = setup.options.get("tokens", "none") == "counter"
        self._left: dict[str, list[str]] = {}
        """lock -> owners of which an acquire or release did not succeed for certain; an object of
        theirs is ours to write over"""
        self._to_free: list[tuple[str, str]] = []
        """those (lock, owner) that were not looked for since"""

    def open(self) -> None:
        """Nothing to wait for: a client that finds no bucket creates it."""

    def acquire(self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode) -> Answer:
        """Polls until an object of ours is written or the wait is over."""
        if mode is not Mode.EXCLUSIVE:
            return EXCLUSIVE_ONLY

        def poll() -> Answer:
            try:
                self._free_left()
                over = self._objects.read(lock) if self._looks(lock) else None
            except Failed as failed:
                return self._no_effect(failed)
            if over is not None and not self._free(lock, over.body):
                return IS_HELD
            return self._take(lock, attempt, ttl_ns, over)

        return self._poller.until(lock, attempt, wait_ns, poll)

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Reads the object and, with leases, writes it again under its etag."""

        def write(found: StoredObject) -> None:
            if self._timed:
                body = self._body(found.body.owner, ttl_ns, found.body.token)
                self._objects.write(grant.lock, body, found)

        answer = self._change(grant, write)
        lease_ns = ttl_ns if self._timed and answer.outcome is Status.OK else 0
        return Answer(outcome=answer.outcome, ttl_ns=lease_ns, error=answer.error)

    def release(self, grant: Grant) -> Answer:
        """Deletes the object under its etag; with tokens, writes one without an owner."""

        answer = self._change(grant, lambda found: self._give_back(grant.lock, found))
        if answer.outcome in (Status.OK, Status.NOT_OWNER):
            return answer
        # This client's next acquire may carry it out.
        self._leave(grant.lock, self._owner(grant.attempt))
        return Answer(outcome=Status.INFO, error=answer.error)

    def close(self) -> None:
        """Closes the connection; an object stays."""
        self._objects.close()

    def _looks(self, lock: str) -> bool:
        """Whether an acquire reads before it writes: a plain lock is free only if there is no
        object, or one that this client has left."""
        return self._timed or self._counts or lock in self._left

    def _take(self, lock: str, attempt: int, ttl_ns: int, over: StoredObject | None) -> Answer:
        owner, token = self._owner(attempt), 0 if over is None else over.body.token + 1
        try:
            self._objects.write(lock, self._body(owner, ttl_ns, token), over)
        except Failed as failed:
            if failed.code in HELD:
                return IS_HELD
            if failed.outcome is Status.INFO:
                self._leave(lock, owner)
                return Answer(outcome=Status.INFO, error=str(failed))
            return self._no_effect(failed)
        return Answer(
            outcome=Status.OK,
            token=token if self._counts else NO_TOKEN,
            ttl_ns=ttl_ns if self._timed else 0,
        )

    def _change(self, grant: Grant, act: Callable[[StoredObject], None]) -> Answer:
        """Reads the object, and acts on it if it is this attempt's."""
        for _ in range(TRIES):
            try:
                stored = self._objects.read(grant.lock)
            except Failed as failed:
                # A read has no effect.
                gone = failed.code == NO_BUCKET
                return LOST if gone else Answer(outcome=Status.FAIL, error=str(failed))
            if stored is None or stored.body.owner != self._owner(grant.attempt):
                return LOST
            try:
                act(stored)
            except Failed as failed:
                if failed.code in (*HELD, *ABSENT):
                    continue
                return Answer(outcome=failed.outcome, error=str(failed))
            return Answer(outcome=Status.OK)
        return Answer(outcome=Status.FAIL, error="the object changed with every read")

    def _no_effect(self, failed: Failed) -> Answer:
        """The answer to a poll without an effect; creates a bucket that the server has lost."""
        if failed.code == NO_BUCKET:
            # The next poll shows the result.
            with suppress(Failed):
                self._objects.create_bucket()
        return Answer(outcome=Status.FAIL, error=str(failed))

    def _give_back(self, lock: str, found: StoredObject) -> None:
        if self._counts:
            self._objects.write(lock, LockBody(owner="", token=found.body.token), found)
        else:
            self._objects.delete(lock, found)

    def _leave(self, lock: str, owner: str) -> None:
        self._left.setdefault(lock, []).append(owner)
        self._to_free.append((lock, owner))

    def _free_left(self) -> None:
        """Gives back what this client has left, also of other locks. Raises Failed."""
        while self._to_free:
            lock, owner = self._to_free[-1]
            stored = self._objects.read(lock)
            if stored is not None and stored.body.owner == owner:
                self._give_back(lock, stored)
            self._to_free.pop()

    def _free(self, lock: str, body: LockBody) -> bool:
        """Whether this client may write over it."""
        over = self._timed and time.time_ns() >= body.ends_ns
        return not body.owner or over or body.owner in self._left.get(lock, ())

    def _body(self, owner: str, ttl_ns: int, token: int) -> LockBody:
        ends_ns = time.time_ns() + ttl_ns if self._timed else 0
        return LockBody(owner=owner, ends_ns=ends_ns, token=token)

    def _owner(self, attempt: int) -> str:
        return f"{self._name}_{attempt}"
