"""The type of a JSON value: for what is read, written or sent as JSON without its own type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None
else:
    # msgspec reads the annotations of dataclasses, and no recursive alias.
    Json = Any
