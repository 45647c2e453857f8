"""valkey-py's Lock, blocking."""

from __future__ import annotations

import valkey
from valkey.exceptions import LockError, LockNotOwnedError

from holdfast.clusters.libraries.adapters.redis_like import BlockingLocks
from holdfast.harness.core.operations import Status

ERRORS = ((LockNotOwnedError, Status.NOT_OWNER),)


class Subject(BlockingLocks):
    """One client with its pool, as in an application."""

    connect = valkey.Valkey
    refused = LockError
    lost = LockNotOwnedError
