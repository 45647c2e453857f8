"""Client interface of the protected resource. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import ONCE, Status

PORT = 7300
"""The port of the protected resource."""


class Resource(Protocol):
    """Methods of a resource client. Like a lock client it never raises."""

    async def read(self, key: str, *, op: int, attempt: int, token: int) -> Reply: ...

    async def write(
        self, key: str, *, op: int, attempt: int, token: int, base: int, once: bool = False
    ) -> Reply: ...


@runtime_checkable
class WritesItself(Protocol):
    """A lock client whose own program can send the requests that its lock guards."""

    def writer(self, resource: Resource, address: str) -> Resource:
        """The resource at an address, by the program's own sends if that is asked for."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """Reply of the resource: OK accepted, FAIL rejected, INFO no response; the version after it."""

    outcome: Status
    version: int = -1
    error: str = ""


def asked(do: str, key: str, *, once: bool = False, **sent: int) -> dict[str, Json]:
    """A request as the resource's server reads it. sent: op, attempt, token and base."""
    request: dict[str, Json] = {"do": do, "key": key, "base": -1, **sent}
    return {**request, "once": 1} if once else request


def answered(answer: Mapping[str, Any]) -> Reply:
    """The server's answer to a request."""
    outcome = Status.OK if answer["ok"] else Status.FAIL
    return Reply(outcome=outcome, version=int(answer["version"]), error=str(answer["error"]))


async def write(resource: Resource, key: str, repeats: int, **sent: int) -> Reply:
    """Sends a write, and `repeats` copies with the same identity; returns the best reply. repeats
    ONCE: an idempotent command, identified by its key. sent: op, attempt, token and base."""
    once = repeats == ONCE
    reply = await resource.write(key, **sent, once=once)
    if repeats <= 0:
        return reply
    return _best([reply, *[await resource.write(key, **sent, once=once) for _ in range(repeats)]])


def _best(replies: Sequence[Reply]) -> Reply:
    """Of several replies to one request: an ok one, else the least definite one."""
    for outcome in (Status.OK, Status.INFO):
        for reply in replies:
            if reply.outcome is outcome:
                return reply
    return replies[0]
