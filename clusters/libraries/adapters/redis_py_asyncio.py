"""redis-py's Lock, by coroutines."""

from __future__ import annotations

import redis.asyncio as redis
from redis.exceptions import LockError, LockNotOwnedError

from holdfast.clusters.libraries.adapters.redis_like import AsyncioLocks
from holdfast.harness.core.operations import Status

ERRORS = ((LockNotOwnedError, Status.NOT_OWNER),)


class Subject(AsyncioLocks):
    """One client with its pool, as an application has it."""

    connect = redis.Redis
    refused = LockError
    lost = LockNotOwnedError
