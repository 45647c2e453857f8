"""Local state of the reference service's client: its waits, and the holds it believes in."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from holdfast.clusters.systems.reference.wire.frames import Frame


@dataclass(kw_only=True, slots=True)
class Wait:
    """One acquire that is not decided yet.

    asked_s   when the client last sent a query with the response that it still waits
    heard_s   when the service last reported its state
    read_ns   when the service read the request to which it responded first, by the run's clock; -1:
              unknown
    spent     durations that the first response reported, as `operations.spent` packs them
    """

    lock: str
    attempt: int
    ttl_ns: int
    wait_ns: int
    terms: Frame
    decided: asyncio.Future[Frame]
    asked_s: float
    heard_s: float
    spent: int = 0
    read_ns: int = -1


@dataclass(kw_only=True, slots=True)
class Held:
    """One grant that the client believes in. heard_s: when the service last confirmed it."""

    lock: str
    token: int
    heard_s: float
