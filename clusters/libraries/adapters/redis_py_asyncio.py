"""redis-py's asyncio Lock."""

from __future__ import annotations

import redis.asyncio as redis
from redis.exceptions import LockError, LockNotOwnedError

from holdfast.clusters.libraries.adapters.redis_like import AsyncioLocks
from holdfast.harness.core.operations import Status

ERRORS = ((LockNotOwnedError, Status.NOT_OWNER),)


class Subject(AsyncioLocks):
    """One client with its pool, as in an application."""

    connect = redis.Redis
    refused = LockError
    lost = LockNotOwnedError
