"""A Redis lock as published: SET NX PX with a unique value, compare-and-delete to release.

The library is unmodified redis-py. Its own retries are switched off: a SET NX that is sent twice
after a lost reply finds its own value and reads as refused.
"""

from __future__ import annotations

import random
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from holdfast.clusters.systems.redis import PORT
from holdfast.harness.clock import MILLISECOND, SECOND, now_ns
from holdfast.harness.events import NO_TOKEN, Answer, Grant, Mode, Op, Status
from holdfast.harness.ports import ClientSetup
from holdfast.harness.seeds import stream

ANSWER_WITHIN_S = 1.0
POLL_NS = (2 * MILLISECOND, 12 * MILLISECOND)

MEANING: tuple[tuple[type[Exception], Status], ...] = (
    (redis.exceptions.BusyLoadingError, Status.FAIL),
    (redis.exceptions.ReadOnlyError, Status.FAIL),
    (redis.exceptions.ResponseError, Status.FAIL),
    (redis.exceptions.TimeoutError, Status.INFO),
    (redis.exceptions.ConnectionError, Status.INFO),
)
"""Error -> what it says about the effect of the command. What is not here is INFO."""

ACQUIRE = """
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  if ARGV[3] == 'counter' then return redis.call('incr', KEYS[2]) end
  return 0
end
return -1
"""
RENEW = """
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0
"""
RELEASE = """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0
"""


class RedisLock:
    """One client with one connection. Waiting is polling, for Redis keeps no queue."""

    blocking = True

    def __init__(self, setup: ClientSetup) -> None:
        self._tell = setup.tell
        self._tokens = setup.options.get("tokens", "none")
        self._rng: random.Random = stream(setup.seed, "redis polls", setup.process)
        self._redis = redis.Redis(
            host=setup.servers[0][1],
            port=PORT,
            socket_timeout=ANSWER_WITHIN_S,
            socket_connect_timeout=ANSWER_WITHIN_S,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )
        self._acquire = self._redis.register_script(ACQUIRE)
        self._renew = self._redis.register_script(RENEW)
        self._release = self._redis.register_script(RELEASE)

    def open(self) -> None:
        """Connect once, so that the first acquire is not the first connect."""
        self._redis.ping()

    def acquire(self, lock: str, *, attempt: int, ttl_ns: int, wait_ns: int, mode: Mode) -> Answer:
        """Poll until the key could be set or the wait is over; each refused poll is told."""
        deadline = now_ns() + wait_ns
        while True:
            answer = self._poll(lock, attempt, ttl_ns)
            if answer.outcome is not Status.FAIL or answer.error:
                return answer
            pause = self._rng.randrange(*POLL_NS)
            if wait_ns >= 0 and now_ns() + pause >= deadline:
                return answer
            self._tell(Op.WAITING, attempt=attempt, lock=lock, res=-1)
            time.sleep(pause / SECOND)

    def _poll(self, lock: str, attempt: int, ttl_ns: int) -> Answer:
        try:
            got = self._acquire(
                keys=[lock, f"{lock}:token"],
                args=[attempt, ttl_ns // MILLISECOND, self._tokens],
            )
        except redis.exceptions.RedisError as error:
            return _answer(error)
        if got == -1:
            return Answer(outcome=Status.FAIL)
        token = got if self._tokens == "counter" else NO_TOKEN
        return Answer(outcome=Status.OK, token=token, ttl_ns=ttl_ns)

    def renew(self, grant: Grant, *, ttl_ns: int) -> Answer:
        """Set the key's time to live again, if it still has our value."""
        try:
            done = self._renew(keys=[grant.lock], args=[grant.attempt, ttl_ns // MILLISECOND])
        except redis.exceptions.RedisError as error:
            return _answer(error)
        return Answer(outcome=Status.OK if done else Status.NOT_OWNER, ttl_ns=ttl_ns)

    def release(self, grant: Grant) -> Answer:
        """Delete the key, if it still has our value."""
        try:
            done = self._release(keys=[grant.lock], args=[grant.attempt])
        except redis.exceptions.RedisError as error:
            return _answer(error)
        return Answer(outcome=Status.OK if done else Status.NOT_OWNER)

    def close(self) -> None:
        self._redis.close()


def _answer(error: Exception) -> Answer:
    """What the table says of an error."""
    outcome = next((meaning for kind, meaning in MEANING if isinstance(error, kind)), Status.INFO)
    return Answer(outcome=outcome, error=f"{type(error).__name__}: {error}")


def client(setup: ClientSetup) -> RedisLock:
    """A client of the first server; the others, if any, are not used."""
    return RedisLock(setup)
