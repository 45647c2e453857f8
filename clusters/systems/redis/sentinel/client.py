"""The published lock on the server that the sentinels name as primary, through redis-py."""

from __future__ import annotations

from redis.sentinel import Sentinel

from holdfast.clusters.systems.redis.client import CONNECTION, RedisLock
from holdfast.clusters.systems.redis.sentinel import DATA, GROUP, PORT
from holdfast.harness.core.ports import ClientSetup


def client(setup: ClientSetup) -> RedisLock:
    """A client that queries the sentinels whenever it has to connect."""
    sentinels = [(address, PORT) for name, address in setup.servers if name not in DATA]
    watched = Sentinel(sentinels, sentinel_kwargs=CONNECTION, **CONNECTION)
    return RedisLock(setup, watched.master_for(GROUP))
