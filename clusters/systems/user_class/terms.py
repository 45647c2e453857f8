"""What a user's lock can do beyond a plain lock, and how the terms of an acquire reach it.

A class declares an ability by parameters of its `acquire`, a table by a list of names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace

from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import PLAIN, Mode, Terms

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "shared": ("mode",),
    "permits": ("permits", "limit"),
    "reentry": ("reenter",),
}
"""Ability -> the parameters of `acquire`, and keys of a request line, that it needs."""


def abilities_of(acquire: Callable[..., object]) -> tuple[str, ...]:
    """The abilities that a class declares by its `acquire`."""
    taken = _parameters(acquire)
    return tuple(name for name, needs in PARAMETERS.items() if set(needs) <= taken)


def half_declared(acquire: Callable[..., object]) -> list[str]:
    """One line for each ability of which `acquire` takes some parameters only."""
    taken = _parameters(acquire)
    return [
        f"acquire takes {' and '.join(sorted(set(needs) & taken))} without"
        f" {' and '.join(sorted(set(needs) - taken))}: {name} needs all of {', '.join(needs)}"
        for name, needs in PARAMETERS.items()
        if taken & set(needs) and not set(needs) <= taken
    ]


def named(terms: Terms) -> dict[str, Json]:
    """Terms by the names of PARAMETERS. A plain acquire asks for the only one of one permit: where
    permits are held, it waits for all of them."""
    return {
        "mode": "shared" if terms.mode is Mode.SHARED else "exclusive",
        "permits": terms.permits,
        "limit": terms.limit,
        "reenter": terms.reenter,
    }


def read(asked: Mapping[str, object]) -> Terms:
    """The terms of a request line, as `named` wrote them; PLAIN without any."""
    mode = Mode.SHARED if asked.get("mode") == "shared" else Mode.EXCLUSIVE
    if "limit" in asked:
        permits, limit = (int(str(asked[name])) for name in ("permits", "limit"))
        return Terms(mode=Mode.PERMITS, permits=permits, limit=limit)
    return replace(PLAIN, mode=mode, reenter=bool(asked.get("reenter")))


def accepted(method: Callable[..., object], terms: Terms) -> dict[str, Json]:
    """The terms that a method of the user's class takes, by name."""
    taken = _parameters(method)
    return {name: value for name, value in named(terms).items() if name in taken}


class TermsOf:
    """The terms of a client's attempts, for the methods of its class that take some."""

    def __init__(self) -> None:
        self._terms: dict[int, Terms] = {}

    def asked(self, attempt: int, terms: Terms) -> None:
        """An attempt asks on these terms."""
        if terms is not PLAIN:
            self._terms[attempt] = terms

    def over(self, attempt: int) -> None:
        """An attempt was released: no more is asked for it."""
        self._terms.pop(attempt, None)

    def taken(self, method: Callable[..., object], attempt: int) -> dict[str, Json]:
        """The terms of an attempt that a method takes, by name."""
        return accepted(method, self._terms.get(attempt, PLAIN))


def _parameters(method: Callable[..., object]) -> set[str]:
    try:
        return set(inspect.signature(method).parameters)
    except (TypeError, ValueError):
        return set()
