"""Client of the Redis lock as published, or with a common error (`variants.py`).

The library is unmodified redis-py. Its own retries are disabled: a SET NX that is sent twice after
a lost reply finds its own value and looks rejected.
"""

from __future__ import annotations

import redis
import redis.sentinel
from redis.backoff import NoBackoff
from redis.retry import Retry

from holdfast.clusters.systems.polling import HELD, Poller
from holdfast.clusters.systems.redis import PORT
from holdfast.clusters.systems.redis.native_client import OwnRedisLock
from holdfast.clusters.systems.redis.variants import way
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import Answer, Grant, Mode, Status
from holdfast.harness.core.ports import CALL, ClientSetup

ANSWER_WITHIN_S = 1.0
POLL_NS = (2 * MILLISECOND, 12 * MILLISECOND)

CONNECTION: dict[str, Json] = {
    "socket_timeout": ANSWER_WITHIN_S,
    "socket_connect_timeout": ANSWER_WITHIN_S,
    "retry": Retry(NoBackoff(), 0),
    "decode_responses": True,
}
MEANING: tuple[tuple[type[Exception], Status], ...] = (
    (redis.sentinel.MasterNotFoundError, Status.FAIL),
    (redis.exceptions.BusyLoadingError, Status.FAIL),
    (redis.exceptions.ReadOnlyError, Status.FAIL),
    (redis.exceptions.ResponseError, Status.FAIL),
    (redis.exceptions.TimeoutError, Status.INFO),
    (redis.exceptions.ConnectionError, Status.INFO),
)
"""Error -> what it means for the effect of the command. Others are INFO."""


class RedisLock:
    """One client with one connection. Waiting is polling, because Redis has no queue."""

    blocking = True
    wire = CALL

    def __init__(self, setup: ClientSetup, connection: redis.Redis) -> None:
        self._poller = Poller(setup, "redis polls", POLL_NS, errors_end=True)
        self._redis = connection
        variant = setup.options.get("variant", "published")
        self._way = way(variant, connection, setup.options.get("tokens", "none"))

    def open(self) -> None:
        """Connect once, so that the first acquire is not the first connect."""
        self._redis.ping()

    def acquire(self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode) -> Answer:
        """Poll until the key is set or the wait is over; each rejected poll is recorded."""

        def poll() -> Answer:
            try:
                token = self._way.take(lock, attempt, ttl_ns // MILLISECOND)
            except redis.exceptions.RedisError as error:
                return answer_of(error)
            return HELD if token is None else Answer(outcome=Status.OK, token=token, ttl_ns=ttl_ns)

        return self._poller.until(lock, attempt, wait_ns, poll)

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Set the key's time to live again, if it still has our value."""
        try:
            done = self._way.renew(grant.lock, grant.attempt, ttl_ns // MILLISECOND)
        except redis.exceptions.RedisError as error:
            return answer_of(error)
        return Answer(outcome=Status.OK if done else Status.NOT_OWNER, ttl_ns=ttl_ns)

    def release(self, grant: Grant) -> Answer:
        """Free it as the variant does: as published, if it still has our value."""
        try:
            done = self._way.free(grant.lock, grant.attempt)
        except redis.exceptions.RedisError as error:
            return answer_of(error)
        return Answer(outcome=Status.OK if done else Status.NOT_OWNER)

    def close(self) -> None:
        self._redis.close()


def answer_of(error: Exception) -> Answer:
    """What an error means, by the table."""
    outcome = next((meaning for kind, meaning in MEANING if isinstance(error, kind)), Status.INFO)
    return Answer(outcome=outcome, error=f"{type(error).__name__}: {error}")


def client(setup: ClientSetup) -> RedisLock | OwnRedisLock:
    """A client of the first server; the others, if any, are not used."""
    if setup.options.get("client") == "own":
        return OwnRedisLock(setup)
    return RedisLock(setup, redis.Redis(host=setup.servers[0][1], port=PORT, **CONNECTION))
