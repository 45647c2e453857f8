"""The type of a lock object of a library under test."""

from __future__ import annotations

from typing import Any, TypeAlias

LibraryLock: TypeAlias = Any
"""What an adapter's `lock` makes and its other methods take: an object of a library that has no
types, or is not installed here. Only the adapter of that library uses it."""
