"""The properties that are judged, and the kinds of their findings: a module per property.

They are read by all that ask for one, the second program too, and by code on nodes from its zip.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

from holdfast.harness.core.verdict import Kind, Property


def _declared() -> Iterator[tuple[str, Property]]:
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        name = module.name.rpartition(".")[2].replace("_", "-")
        yield name, import_module(module.name).PROPERTY


PROPERTIES: dict[str, Property] = dict(sorted(_declared(), key=lambda one: one[1].place))
"""Property id -> what it is, in the order in which reports have them. Its checker is the module of
the property's name in `checkers/properties`."""
KINDS: dict[str, Kind] = {
    name: kind for one in PROPERTIES.values() for name, kind in one.kinds.items()
} | {
    # Of any model of `check --model`.
    "not-linearizable": Kind(
        name="Not linearizable",
        mechanism="none",
        means=(
            "no order of the operations, each taking effect between its call and its"
            " return, is one that the object allows"
        ),
        remedy="Look at the first operation named, and at those concurrent with it.",
    ),
}
"""Kinds of findings, by their names in verdicts.json."""


def of_mechanism(mechanism: str) -> tuple[str, ...]:
    """The kinds of one mechanism."""
    return tuple(name for name, kind in KINDS.items() if kind.mechanism == mechanism)


CAUSES: dict[str, tuple[str, str]] = {
    "foreign-release": (
        "foreign-release",
        "a client that did not hold the lock released it, which freed another client's hold; the"
        " next grant then met that hold:",
    ),
    "late-release": (
        "foreign-release",
        "a release returned ok after its lease may have expired; either it freed another client's"
        " hold, or",
    ),
}
"""Cause of a finding -> the kind of finding that the cause is itself, and the words for it."""


def kind(name: str, cause: str = "") -> Kind:
    """The entry of a kind of finding, or a generic one for an unknown kind.

    cause   of CAUSES: it is named first, and its remedy is shown
    """
    known = KINDS.get(name)
    if known and cause in CAUSES:
        own, first = CAUSES[cause]
        return Kind(name=KINDS[own].name, means=f"{first} {known.means}", remedy=KINDS[own].remedy)
    if known:
        return known
    title = name.replace("-", " ").strip() or "finding"
    return Kind(
        name=title[:1].upper() + title[1:],
        means="the recorded history contradicts the property",
        remedy="Read the events that prove it, in their order.",
    )
