"""The protected resource as its callers see it. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.harness.core.operations import ONCE, Status


class Resource(Protocol):
    """The protected resource as a client calls it. Answers never raise, like a lock's."""

    async def read(self, key: str, *, op: int, attempt: int, token: int) -> Reply: ...

    async def write(
        self, key: str, *, op: int, attempt: int, token: int, base: int, once: bool = False
    ) -> Reply: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What the resource said: OK accepted, FAIL refused, INFO no answer. version after it."""

    outcome: Status
    version: int = -1
    error: str = ""


async def write(resource: Resource, key: str, repeats: int, **sent: int) -> Reply:
    """A write, and `repeats` more of it under its own identity: the best of the answers. repeats
    ONCE: it is the one command of its key. sent: op, attempt, token and base."""
    once = repeats == ONCE
    reply = await resource.write(key, **sent, once=once)
    if repeats <= 0:
        return reply
    return _best([reply, *[await resource.write(key, **sent, once=once) for _ in range(repeats)]])


def _best(replies: Sequence[Reply]) -> Reply:
    """Of several answers to one request one that is ok, else the one that leaves most open."""
    for outcome in (Status.OK, Status.INFO):
        for reply in replies:
            if reply.outcome is outcome:
                return reply
    return replies[0]
