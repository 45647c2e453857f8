"""What a lock that is an object says, and what a store of such objects can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

HELD = ("PreconditionFailed", "ConditionalRequestConflict")
"""Codes of a condition that did not hold, and of a write that another one came before."""
ABSENT = ("NoSuchKey", "404")
NO_BUCKET = "NoSuchBucket"


@dataclass(frozen=True, kw_only=True, slots=True)
class LockBody:
    """What an object says.

    owner    client and attempt; "": free
    ends_ns  wall clock time at which the lease is over, 0 without a lease
    token    number of the grant
    """

    owner: str
    ends_ns: int = 0
    token: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredObject:
    """An object as read, and the service's name of this version of its content."""

    body: LockBody
    etag: str


class Store(Protocol):
    """Objects of one bucket. All methods raise Failed, with a code above if one applies."""

    def create_bucket(self) -> None:
        """Creates the bucket; nothing if the same user has made it."""
        ...

    def read(self, key: str) -> StoredObject | None:
        """The object, None if there is none."""
        ...

    def write(self, key: str, body: LockBody, over: StoredObject | None) -> None:
        """Stores an object if there is none, or over the one that was read."""
        ...

    def delete(self, key: str, found: StoredObject) -> None:
        """Deletes the object if it is still the one that was read."""
        ...

    def close(self) -> None:
        """Ends the connection."""
        ...
