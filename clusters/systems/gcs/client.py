"""Client of locks that are objects of Google Cloud Storage."""

from __future__ import annotations

from dataclasses import replace

from holdfast.clusters.systems.gcs.objects import Objects
from holdfast.clusters.systems.object_lock.lock import ObjectLock
from holdfast.harness.core.ports import ClientSetup


def client(setup: ClientSetup) -> ObjectLock:
    """A client of the first server. A released object stays, so the grant's number is kept."""
    counting = replace(setup, options={**setup.options, "tokens": "counter"})
    return ObjectLock(counting, Objects(setup.servers[0][1]))
