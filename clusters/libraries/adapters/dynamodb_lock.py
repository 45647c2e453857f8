"""python-dynamodb-lock, and its successor by another author; both send heartbeats."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace

import boto3
from botocore.config import Config
from python_dynamodb_lock.python_dynamodb_lock import DynamoDBLockClient, DynamoDBLockError

from holdfast.clusters.libraries.library_lock import LibraryLock
from holdfast.clusters.systems.dynamodb import PORT
from holdfast.harness.core.operations import Status
from holdfast.harness.core.ports import ClientSetup

POLL = timedelta(milliseconds=50)
LONG_S = 1e6
ERRORS: tuple[tuple[type[Exception], Status], ...] = ()


class Subject:
    """One lock client as in its examples, but with a timeout of one second."""

    def __init__(self, setup: ClientSetup) -> None:
        table = boto3.resource(
            "dynamodb", region_name="us-east-1", aws_access_key_id="none",
            aws_secret_access_key="none", endpoint_url=f"http://{setup.servers[0][1]}:{PORT}",
            config=Config(connect_timeout=1, read_timeout=1),
        )  # fmt: skip
        with suppress(table.meta.client.exceptions.ResourceInUseException):
            DynamoDBLockClient.create_dynamodb_table(table.meta.client)
        lease = timedelta(microseconds=setup.lease_ns // 1000)
        self._client = DynamoDBLockClient(
            table, heartbeat_period=lease / 4, safe_period=lease * 0.75, lease_duration=lease
        )

    def lock(self, name: str, attempt: str, lease_s: float | None, wait_s: float | None) -> object:
        return SimpleNamespace(name=name, held=None)

    def acquire(self, lock: LibraryLock, wait_s: float | None) -> bool:
        within = timedelta(seconds=LONG_S if wait_s is None else max(wait_s, 1e-6))
        try:
            lock.held = self._client.acquire_lock(lock.name, "-", POLL, within)
        except DynamoDBLockError as refused:
            if refused.code != DynamoDBLockError.ACQUIRE_TIMEOUT:
                raise
        return lock.held is not None

    def release(self, lock: LibraryLock) -> bool:
        if lock.held is None or lock.held.status not in (lock.held.LOCKED, lock.held.IN_DANGER):
            return False
        try:
            self._client.release_lock(lock.held, best_effort=False)
        except DynamoDBLockError as refused:
            if refused.code != DynamoDBLockError.LOCK_STOLEN:
                raise
            return False
        return True
