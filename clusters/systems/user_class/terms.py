"""What a user's lock can do beyond a plain lock, and how the terms of an acquire reach it.

A class declares an ability by parameters of its `acquire`, by methods and by attributes, a table by
a list of names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from holdfast.harness.core.json_value import Json
from holdfast.harness.core.operations import NO_TOKEN, PLAIN, Mode, Op, Terms
from holdfast.harness.core.ports import ABILITIES

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "shared": ("mode",),
    "permits": ("permits", "limit"),
    "reentry": ("reenter",),
    "condition": ("newest",),
    "metadata": ("metadata",),
}
"""Ability -> the parameters of `acquire`, and keys of a request line, that it needs."""
QUERIES: Mapping[str, Op] = {"holder": Op.HOLDER, "place": Op.PLACE, "length": Op.LENGTH}
"""Method of a class, and name in the list of a table -> the query that it answers."""
LISTED = (*PARAMETERS, *QUERIES, "check", "subtrees")
"""What a table may list."""


def abilities_of(made: object) -> tuple[str, ...]:
    """What a class declares, of LISTED."""
    parts = dict(inspect.getmembers_static(made))
    taken = parameters_of(parts.get("acquire"))
    named = [name for name, needs in PARAMETERS.items() if set(needs) <= taken]
    named += [name for name in (*QUERIES, "check") if name in parts]
    return (*named, *(["subtrees"] if parts.get("subtrees") is True else []))


def able(listed: Collection[str]) -> tuple[str, ...]:
    """The abilities of a system, of `ABILITIES`, that follow from some of LISTED."""
    more = {"queries": bool(set(QUERIES) & set(listed)), "sequencers": "check" in listed}
    plain = [name for name in listed if name in ABILITIES]
    return (*plain, *(name for name, has in more.items() if has))


def half_declared(acquire: Callable[..., object]) -> list[str]:
    """One line for each ability of which `acquire` takes some parameters only."""
    taken = parameters_of(acquire)
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
        "newest": None if terms.newest == NO_TOKEN else terms.newest,
        "metadata": terms.metadata,
    }


def read(asked: Mapping[str, object]) -> Terms:
    """The terms of a request line, as `named` wrote them; PLAIN without any."""
    mode = Mode.SHARED if asked.get("mode") == "shared" else Mode.EXCLUSIVE
    if "limit" in asked:
        permits, limit = (int(str(asked[name])) for name in ("permits", "limit"))
        return Terms(mode=Mode.PERMITS, permits=permits, limit=limit)
    newest, metadata = asked.get("newest"), str(asked.get("metadata") or "")
    return replace(
        PLAIN,
        mode=mode,
        reenter=bool(asked.get("reenter")),
        newest=newest if isinstance(newest, int) else NO_TOKEN,
        metadata=metadata,
    )


def accepted(method: Callable[..., object], terms: Terms) -> dict[str, Json]:
    """The terms that a method of the user's class takes, by name."""
    taken = parameters_of(method)
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


def parameters_of(method: object) -> set[str]:
    """The names of a method's parameters."""
    if not callable(method):
        return set()
    try:
        return set(inspect.signature(method).parameters)
    except (TypeError, ValueError):
        return set()
