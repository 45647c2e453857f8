"""The type of a lock object of a library under test."""

from __future__ import annotations

from typing import Any, TypeAlias


class NoLease(Exception):
    """A renewal of a lock without a lease, by an adapter whose library raises for that what it
    raises for a lock of another owner."""


LibraryLock: TypeAlias = Any
"""What an adapter's `lock` makes and its other methods take: an object of a library that has no
types, or is not installed here. Only the adapter of that library uses it."""
