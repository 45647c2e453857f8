"""What pottery's errors of an unlocked lock mean: servers that failed raise them too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from holdfast.harness.core.operations import Status


@runtime_checkable
class WithErrors(Protocol):
    """An error of pottery: the errors of single servers stand in it."""

    redis_errors: Iterable[Exception]


def unless_a_server_failed(error: BaseException) -> Status:
    """Not the owner if every server responded; unknown if one of them may still hold the key."""
    failed = isinstance(error, WithErrors) and list(error.redis_errors)
    return Status.INFO if failed else Status.NOT_OWNER
