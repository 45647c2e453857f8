"""kazoo's Lock, unmodified: an ephemeral sequential node per attempt, in one session per client.

The library keeps the session alive in its own thread and does not notify of a lock that was lost
with it; the adapter listens to the state of the session and notifies. That an attempt waits shows
in the library's own request for a watch of its predecessor (`watched`). A renewal writes to the
attempt's node, which the leader accepts as long as the node exists: unlike an acknowledged
heartbeat, that proves that the lock has been owned since the grant.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    LockTimeout,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from kazoo.recipe.lock import Lock

from holdfast.clusters.systems.zookeeper import PORT, session_ns
from holdfast.clusters.systems.zookeeper.contenders import left_behind
from holdfast.clusters.systems.zookeeper.watched import WatchReporter
from holdfast.harness.core.clock import SECOND, now_ns
from holdfast.harness.core.operations import NO_TOKEN, Answer, Grant, Mode, Op, Status
from holdfast.harness.core.ports import CLIENT, ClientSetup

MEANING: tuple[tuple[type[Exception], Status], ...] = (
    (NoNodeError, Status.NOT_OWNER),
    (SessionExpiredError, Status.NOT_OWNER),
    (ConnectionLoss, Status.INFO),
    (ConnectionClosedError, Status.INFO),
    (OperationTimeoutError, Status.INFO),
    (KazooTimeoutError, Status.INFO),
)
"""Error -> what it means for a call. Others are INFO."""

START_S = 45.0
"""for the first session; a restarted client may have to wait for an election"""
PAUSE_S = 0.05
RECONNECT = {"max_tries": -1, "max_delay": 1.0}
"""kazoo's defaults, except the maximum delay between two attempts, which is an hour there."""


class KazooLock:
    """A BlockingLockClient with one session; a lost one is replaced."""

    blocking = True
    wire = CLIENT

    def __init__(self, setup: ClientSetup) -> None:
        self._setup = setup
        self._told_when_suspended = setup.options.get("suspended") == "told"
        self._refusals_checked = setup.options.get("refused") != "trusted"
        self._sequence = setup.options.get("token") == "sequence"
        self._session_ns = session_ns(setup.lease_ns, int(setup.options.get("tick", "500")))
        self._call_s = max(1.0, setup.lease_ns / 3e9)
        self._locks: dict[int, Lock] = {}
        self._held: dict[int, Grant] = {}
        self._over: set[int] = set()
        self._zk = KazooClient(
            hosts=",".join(f"{address}:{PORT}" for _, address in setup.servers),
            timeout=setup.lease_ns / SECOND,
            connection_retry=RECONNECT,
        )
        self._zk.add_listener(self._on_state)

    def open(self) -> None:
        """Opens the session."""
        self._zk.start(timeout=START_S)

    def acquire(self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode) -> Answer:
        """As `BlockingLockClient`; a shared mode is rejected. The lease is that of the session."""
        if mode is not Mode.EXCLUSIVE:
            return Answer(outcome=Status.FAIL, error="this lock is never shared")
        waits = partial(self._setup.tell, Op.WAITING, attempt=attempt, lock=lock, res=-1)
        asked = Lock(WatchReporter(self._zk, waits), f"/holdfast/{lock}", identifier=str(attempt))
        timeout_s = wait_ns / SECOND if wait_ns > 0 else None
        try:
            if not asked.acquire(blocking=wait_ns != 0, timeout=timeout_s):
                return self._not_granted(asked, "")
        except LockTimeout as error:
            return self._not_granted(asked, f"LockTimeout: {error}")
        except (KazooException, KazooTimeoutError) as error:
            return _answer(error)
        try:
            token = self._token(asked)
        except (KazooException, KazooTimeoutError) as error:
            with contextlib.suppress(KazooException):
                asked.release()
            return _answer(error)
        self._locks[attempt] = asked
        self._held[attempt] = Grant(
            lock=lock, attempt=attempt, token=token, ttl_ns=self._session_ns, granted_at_ns=0
        )
        return Answer(outcome=Status.OK, token=token, ttl_ns=self._session_ns)

    def _not_granted(self, lock: Lock, error: str) -> Answer:
        """Rejected, unless the node of the attempt is, or may be, still in the queue.

        A node that stays is gone with the session: as long as that lasts, it is looked for.
        """
        if not self._refusals_checked:
            return Answer(outcome=Status.FAIL, error=error)
        try:
            if not left_behind(self._zk, lock, self._session_ns / SECOND):
                return Answer(outcome=Status.FAIL, error=error)
        except (KazooException, KazooTimeoutError) as unknown:
            return Answer(outcome=Status.INFO, error=f"{error} {type(unknown).__name__}".strip())
        return Answer(outcome=Status.INFO, error=f"{error} its node was not deleted".strip())

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Writes to the attempt's node, and again after a lost connection.

        The node of a session that is over may exist for some more time: a write by the next session
        shows nothing about who owns the lock.
        """
        if grant.attempt in self._over:
            return Answer(outcome=Status.NOT_OWNER, error="its session is over")
        until_ns = now_ns() + int(self._call_s * SECOND)
        while True:
            try:
                self._write(self._locks[grant.attempt], grant)
                return Answer(outcome=Status.OK, ttl_ns=self._session_ns)
            except ConnectionLoss as error:
                if now_ns() >= until_ns:
                    return _answer(error)
                time.sleep(PAUSE_S)
            except (KazooException, KazooTimeoutError) as error:
                if isinstance(error, SessionExpiredError):
                    self._over.add(grant.attempt)
                return _answer(error)

    def release(self, grant: Grant) -> Answer:
        """Renews, then releases, because the library's release does not show the holder.

        Ok proves that the attempt owned its lock until now, and no longer does. If the library has
        released and no write could prove that, it may have owned it until now, or not.
        """
        self._held.pop(grant.attempt, None)
        owned = self.renew(grant, ttl_ns=0)
        try:
            released = self._locks[grant.attempt].release()
        except (KazooException, KazooTimeoutError) as error:
            return owned if owned.outcome is Status.NOT_OWNER else _answer(error)
        if released and owned.outcome is Status.INFO:
            return Answer(outcome=Status.INFO, error=f"released, not proved: {owned.error}")
        return owned

    def close(self) -> None:
        """Ends the session, and all locks with it."""
        self._zk.remove_listener(self._on_state)
        self._zk.stop()
        self._zk.close()

    def _token(self, lock: Lock) -> int:
        """The fencing token of a lock that was just acquired. Errors: as kazoo's; NoNodeError."""
        if self._sequence:
            return int(lock.node[-10:])
        stat = self._zk.exists_async(f"{lock.path}/{lock.node}").get(timeout=self._call_s)
        if stat is None:
            raise NoNodeError("the node of a lock that was acquired is gone")
        return int(stat.czxid)

    def _write(self, lock: Lock, grant: Grant) -> None:
        if lock.node is None:
            raise NoNodeError("released before")
        data = str(grant.attempt).encode()
        self._zk.set_async(f"{lock.path}/{lock.node}", data).get(timeout=self._call_s)

    def _on_state(self, state: str) -> None:
        """Called in a thread of the library, like a careful user's listener."""
        if state == KazooState.LOST:
            self._over.update(self._locks)
            self._setup.tell(Op.CLOSED, attempt=0, lock="", text="session")
            self._tell_lost("session")
        elif state == KazooState.SUSPENDED and self._told_when_suspended:
            self._tell_lost("connection")

    def _tell_lost(self, reason: str) -> None:
        for attempt in list(self._held):
            grant = self._held.pop(attempt, None)
            if grant is not None:
                self._setup.tell(
                    Op.LOST, attempt=attempt, lock=grant.lock, text=reason, token=grant.token
                )


def _answer(error: Exception) -> Answer:
    """What an error means, by the table."""
    outcome = next((meaning for kind, meaning in MEANING if isinstance(error, kind)), Status.INFO)
    return Answer(outcome=outcome, token=NO_TOKEN, error=f"{type(error).__name__}: {error}")


def client(setup: ClientSetup) -> KazooLock:
    """A client of all servers, in one session."""
    return KazooLock(setup)
