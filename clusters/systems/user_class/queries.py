"""Queries of a user's lock: what its methods, or a program's response, say becomes a `Queried`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.harness.core.ports import Queried

HOLDER_KEYS = ("token", "renewals", "metadata", "held_s", "left_s")
"""What may be said of a hold."""


class Asked(Protocol):
    """An object of the user's class, as far as it is queried."""

    def holder(self, lock: str) -> object: ...

    def length(self, lock: str) -> object: ...

    def place(self, lock: str, owner: str) -> object: ...


def asked_of(made: Asked, reports: Collection[Op], lock: str, attempt: int) -> Queried:
    """What an object of the user's class answers about a lock. Its errors are an unknown outcome.

    attempt   0: a query that is not about one
    """
    try:
        returned: dict[str, object] = {}
        if attempt:
            returned["place"] = made.place(lock, str(attempt)) if Op.PLACE in reports else None
        else:
            returned["holder"] = made.holder(lock) if Op.HOLDER in reports else None
            returned["length"] = made.length(lock) if Op.LENGTH in reports else None
        return answered(returned)
    except Exception as error:
        return Queried(outcome=Status.INFO, error=f"{type(error).__name__}: {error}")


def answered(said: Mapping[str, object]) -> Queried:
    """The answer of `holder`, `place` and `length`. TypeError for a value of another kind."""
    place, length = (_count(name, said.get(name)) for name in ("place", "length"))
    return replace(_holder(said.get("holder")), place=place, length=length)


def _count(name: str, value: object) -> int:
    """A number, -1 for none."""
    if value is None or value is False:
        return -1
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} returned a {type(value).__name__}; expected a number or None")
    return value


def _holder(value: object) -> Queried:
    free = Queried(outcome=Status.OK)
    if value is None or value is False:
        return free
    hold: Mapping[str, object] = value if isinstance(value, Mapping) else {"token": value}
    token = hold.get("token")
    unknown = [name for name in hold if name not in HOLDER_KEYS]
    if unknown or not isinstance(token, int) or isinstance(token, bool) or token < 0:
        raise TypeError(
            f"holder returned {value!r}; expected the token of the hold, a dict of"
            f" {', '.join(HOLDER_KEYS)}, or None if the lock is free"
        )
    return replace(
        free,
        token=token,
        renewals=_count("renewals", hold.get("renewals")),
        metadata=str(hold.get("metadata") or ""),
        held_ns=_ns(hold.get("held_s")),
        left_ns=_ns(hold.get("left_s")),
    )


def _ns(value: object) -> int | None:
    return int(value * SECOND) if isinstance(value, int | float) else None


def written(said: Queried) -> dict[str, Json]:
    """The same as keys of a response line."""
    row: dict[str, Json] = {"holder": None}
    if said.token != NO_TOKEN:
        row["holder"] = {"token": said.token, "metadata": said.metadata}
    row |= {"place": said.place} if said.place >= 0 else {}
    return row | ({"length": said.length} if said.length >= 0 else {})
