"""The published lock on a Redis Cluster, through unmodified redis-py.

With `wait=N` a grant and a renewal are followed by WAIT on the same connection; without N
acknowledgements the client releases what it was granted. The library's own retries are disabled: a
SET NX that is sent twice after a lost reply finds its own value and looks rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry

from holdfast.clusters.systems.polling import EXCLUSIVE_ONLY, HELD, Poller
from holdfast.clusters.systems.redis import PORT
from holdfast.clusters.systems.redis.client import ANSWER_WITHIN_S, POLL_NS
from holdfast.clusters.systems.redis.client import answer_of as answer_of_redis
from holdfast.clusters.systems.redis.cluster import WAIT
from holdfast.clusters.systems.redis.variants import RELEASE, RENEW
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.operations import Answer, Grant, Mode, Status
from holdfast.harness.core.ports import CALL, ClientSetup

WAIT_MS = 500
"""for the acknowledgements; less than the client waits for a response"""
ERRORS = (redis.exceptions.RedisError, redis.exceptions.RedisClusterException)
"""of the library; the second is no kind of the first"""
FEW = Answer(outcome=Status.FAIL, error="too few replicas acknowledged; released")


class Connection(Protocol):
    """What is used of redis-py's RedisCluster."""

    nodes_manager: Slots

    def execute_command(self, *words: str | int) -> object: ...

    def get_node_from_key(self, key: str) -> ClusterNode: ...

    def get_redis_connection(self, node: ClusterNode) -> redis.Redis: ...

    def close(self) -> None: ...


class Slots(Protocol):
    """Which server has which slots, as the client knows it."""

    def initialize(self) -> None:
        """Asks the servers again. Raises ERRORS."""
        ...


class ClusterLock:
    """A BlockingLockClient; `client` makes one."""

    blocking = True
    wire = CALL

    def __init__(self, setup: ClientSetup, connect: Callable[[], Connection]) -> None:
        self._poller = Poller(setup, "redis cluster polls", POLL_NS, errors_end=True)
        self._connect = connect
        self._opened: Connection | None = None
        self._wait = int(setup.options.get(WAIT, "0"))

    def open(self) -> None:
        """Asks a server for the slots of all, so that the first acquire need not."""
        self._opened = self._connect()

    def acquire(self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode) -> Answer:
        """Polls until the key is set, and acknowledged, or the wait is over."""
        if mode is not Mode.EXCLUSIVE:
            return EXCLUSIVE_ONLY
        words = ("SET", lock, attempt, "NX", "PX", ttl_ns // MILLISECOND)

        def poll() -> Answer:
            try:
                done, enough = self._write(lock, words)
            except ERRORS as error:
                return _answer(error)
            if not done:
                return HELD
            return Answer(outcome=Status.OK, ttl_ns=ttl_ns) if enough else self._undo(lock, attempt)

        return self._poller.until(lock, attempt, wait_ns, poll)

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Sets the time to live again, if the key has our value. Without enough acknowledgements
        the result is unknown."""
        words = ("EVAL", RENEW, 1, grant.lock, grant.attempt, ttl_ns // MILLISECOND)
        try:
            done, enough = self._write(grant.lock, words)
        except ERRORS as error:
            return _answer(error)
        if done and not enough:
            return Answer(outcome=Status.INFO, error="too few replicas acknowledged")
        return Answer(outcome=Status.OK if done else Status.NOT_OWNER, ttl_ns=ttl_ns)

    def release(self, grant: Grant) -> Answer:
        """Deletes the key, if it has our value."""
        try:
            done = self._cluster.execute_command("EVAL", RELEASE, 1, grant.lock, grant.attempt)
        except ERRORS as error:
            return _answer(error)
        return Answer(outcome=Status.OK if done else Status.NOT_OWNER)

    def close(self) -> None:
        """Ends all connections; keys expire."""
        if self._opened is not None:
            self._opened.close()

    @property
    def _cluster(self) -> Connection:
        assert self._opened is not None, "open comes first"
        return self._opened

    def _write(self, lock: str, words: Sequence[str | int]) -> tuple[bool, bool]:
        """Whether a write was carried out, and whether enough replicas have it. Raises ERRORS.

        WAIT counts what its own connection wrote, so both commands go to one connection.
        """
        if not self._wait:
            return bool(self._cluster.execute_command(*words)), True
        node = self._cluster.get_node_from_key(lock)
        pipe = self._cluster.get_redis_connection(node).pipeline(transaction=False)
        pipe.execute_command(*words)
        pipe.execute_command("WAIT", self._wait, WAIT_MS)
        try:
            done, acknowledged = pipe.execute(raise_on_error=False)
        except redis.exceptions.ConnectionError:
            self._cluster.nodes_manager.initialize()
            raise
        if isinstance(done, redis.exceptions.ResponseError):
            # The slots have moved, or the node has no majority: the command was not executed.
            self._cluster.nodes_manager.initialize()
            raise done
        if isinstance(acknowledged, Exception):
            return bool(done), False
        return bool(done), int(acknowledged) >= self._wait

    def _undo(self, lock: str, attempt: int) -> Answer:
        """Releases a grant that too few replicas acknowledged; unknown if that fails."""
        try:
            self._cluster.execute_command("EVAL", RELEASE, 1, lock, attempt)
        except ERRORS as error:
            return Answer(outcome=Status.INFO, error=f"too few replicas acknowledged; {error}")
        return FEW


def _answer(error: Exception) -> Answer:
    """As for one server; without slots no command was sent."""
    if isinstance(error, redis.exceptions.RedisClusterException):
        return Answer(outcome=Status.FAIL, error=f"{type(error).__name__}: {error}")
    return answer_of_redis(error)


def client(setup: ClientSetup) -> ClusterLock:
    """A client that asks the servers for their slots when it is opened."""

    def connect() -> Connection:
        made: Connection = RedisCluster(
            startup_nodes=[ClusterNode(address, PORT) for _, address in setup.servers],
            retry=Retry(NoBackoff(), 0),
            socket_timeout=ANSWER_WITHIN_S,
            socket_connect_timeout=ANSWER_WITHIN_S,
            decode_responses=True,
        )
        return made

    return ClusterLock(setup, connect)
