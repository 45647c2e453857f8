"""valkey-py's asyncio Lock."""

from __future__ import annotations

import valkey.asyncio as valkey
from valkey.exceptions import LockError, LockNotOwnedError

from holdfast.clusters.libraries.adapters.redis_like import AsyncioLocks
from holdfast.harness.core.operations import Status

ERRORS = ((LockNotOwnedError, Status.NOT_OWNER),)


class Subject(AsyncioLocks):
    """One client with its pool, as in an application."""

    connect = valkey.Valkey
    refused = LockError
    lost = LockNotOwnedError
