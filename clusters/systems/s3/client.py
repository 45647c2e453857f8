"""Client of locks that are objects of S3."""

from __future__ import annotations

from holdfast.clusters.systems.object_lock.lock import ObjectLock
from holdfast.clusters.systems.s3.objects import Objects
from holdfast.harness.core.ports import ClientSetup


def client(setup: ClientSetup) -> ObjectLock:
    """A client of the first server."""
    return ObjectLock(setup, Objects(setup.servers[0][1]))
