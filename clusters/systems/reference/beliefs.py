"""What the client of the reference service keeps in mind: whom it waits for, what it believes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from holdfast.clusters.systems.reference.wire import Frame
from holdfast.harness.events import PLAIN, Terms


@dataclass(kw_only=True, slots=True)
class Wait:
    """One acquire that is not decided yet."""

    lock: str
    attempt: int
    ttl_ns: int
    wait_ns: int
    terms: Frame
    decided: asyncio.Future[Frame]
    heard_s: float


@dataclass(kw_only=True, slots=True)
class Held:
    """One grant that the client believes in. heard_s: when the service last confirmed it."""

    lock: str
    token: int
    heard_s: float


def said(terms: Terms) -> Frame:
    """The part of an acquire that says on what terms: what is not plain, nothing if all is."""
    if terms is PLAIN:
        return {}
    names = Terms.__dataclass_fields__
    given = {name: getattr(terms, name) for name in names}
    unlike = {n: int(v) if n == "mode" else v for n, v in given.items() if v != getattr(PLAIN, n)}
    return {"terms": unlike} if unlike else {}
