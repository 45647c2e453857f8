"""Variants of the lock on one Redis: as published, and with four common errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.harness.core.operations import NO_TOKEN

if TYPE_CHECKING:
    from redis import Redis

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
FIXED = 1
"""the value that all owners share in `fixed-value`"""


class LockCommands(Protocol):
    """The commands of a lock. Raises what redis-py raises."""

    def take(self, lock: str, attempt: int, ttl_ms: int) -> int | None:
        """The token of a grant, NO_TOKEN without tokens; None: another client has it."""
        ...

    def renew(self, lock: str, attempt: int, ttl_ms: int) -> bool: ...

    def free(self, lock: str, attempt: int) -> bool: ...


class Published:
    """SET NX PX with a unique value, compare-and-delete in a script."""

    def __init__(self, redis: Redis, tokens: str) -> None:
        self._tokens = tokens
        self._take = redis.register_script(ACQUIRE)
        self._renew = redis.register_script(RENEW)
        self._free = redis.register_script(RELEASE)

    def take(self, lock: str, attempt: int, ttl_ms: int) -> int | None:
        got = self._take(keys=[lock, f"{lock}:token"], args=[attempt, ttl_ms, self._tokens])
        if got == -1:
            return None
        return int(got) if self._tokens == "counter" else NO_TOKEN

    def renew(self, lock: str, attempt: int, ttl_ms: int) -> bool:
        return bool(self._renew(keys=[lock], args=[attempt, ttl_ms]))

    def free(self, lock: str, attempt: int) -> bool:
        return bool(self._free(keys=[lock], args=[attempt]))


class FixedValue:
    """One value for all owners, so that the comparison always agrees."""

    def __init__(self, redis: object) -> None:
        self._published = Published(redis, "none")

    def take(self, lock: str, attempt: int, ttl_ms: int) -> int | None:
        return self._published.take(lock, FIXED, ttl_ms)

    def renew(self, lock: str, attempt: int, ttl_ms: int) -> bool:
        return self._published.renew(lock, FIXED, ttl_ms)

    def free(self, lock: str, attempt: int) -> bool:
        return self._published.free(lock, FIXED)


class GetThenDel:
    """Compares in the client, then deletes whatever the key has by then."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        published = Published(redis, "none")
        self.take, self.renew = published.take, published.renew

    def free(self, lock: str, attempt: int) -> bool:
        return self._redis.get(lock) == str(attempt) and bool(self._redis.delete(lock))


class PlainDel:
    """Deletes without checking the owner."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        published = Published(redis, "none")
        self.take, self.renew = published.take, published.renew

    def free(self, lock: str, attempt: int) -> bool:
        return bool(self._redis.delete(lock))


class SetnxExpire:
    """Acquires the lock with one command and sets its time to live with the next."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        published = Published(redis, "none")
        self.renew, self.free = published.renew, published.free

    def take(self, lock: str, attempt: int, ttl_ms: int) -> int | None:
        if not self._redis.setnx(lock, attempt):
            return None
        self._redis.pexpire(lock, ttl_ms)
        return NO_TOKEN


def way(variant: str, redis: object, tokens: str) -> LockCommands:
    """The variant that an option names; `redis` is a connection of redis-py."""
    ways: dict[str, type[FixedValue | GetThenDel | PlainDel | SetnxExpire]] = {
        "fixed-value": FixedValue,
        "get-then-del": GetThenDel,
        "plain-del": PlainDel,
        "setnx-expire": SetnxExpire,
    }
    return ways[variant](redis) if variant in ways else Published(redis, tokens)
