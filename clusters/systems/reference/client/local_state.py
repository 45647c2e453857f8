"""What the client of the reference service keeps in mind: whom it waits for, what it believes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from holdfast.clusters.systems.reference.wire.frames import Frame


@dataclass(kw_only=True, slots=True)
class Wait:
    """One acquire that is not decided yet.

    asked_s   when the client last asked about it and was told that it still waits
    heard_s   when the service last said how it stands
    read_ns   when the service read the request that it answered first, by the run's clock; -1: not
              known
    spent     what the first answer said that the service spent on it, as `events.spent` packs it
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
