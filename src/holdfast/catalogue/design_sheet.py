"""The design sheet of a system beside the protected resource that a run puts behind its lock."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol, runtime_checkable

from holdfast import catalogue
from holdfast.harness.core.fault_traits import CLASSES, Traits
from holdfast.harness.core.verdict import Promises

RESOURCE = "protected resource"


@runtime_checkable
class Suited(Protocol):
    """A System that belongs in front of one protected resource, unless the plan names another."""

    resource: str


def suited_to(system: object, promises: Promises) -> str:
    """The resource that a system is put before where nothing is said: fenced, if it has tokens."""
    if isinstance(system, Suited):
        return system.resource
    return "fenced" if promises.tokens != "none" else "unfenced"


Planned = tuple[str, Mapping[str, str]]
"""A kind of fault in a plan, and its options."""


def with_kinds(promises: Promises, planned: Collection[Planned] = ()) -> Promises:
    """The promises with every kind of fault by its name, classes of faults replaced; "any" too,
    where hardware lies, or an earlier state comes back, in a `planned` fault."""
    names = dict.fromkeys((*catalogue.NEMESES, *(name for name, _ in planned)))
    traits = {name: catalogue.NEMESES[name].traits for name in names}
    kinds = {
        name: [n for n, kind in traits.items() if belongs(kind)]
        for name, belongs in CLASSES.items()
    }
    beyond = {name for name, options in planned if _beyond(traits[name], options)}
    if beyond:
        kinds["any"] = [
            name for name, kind in traits.items() if name not in beyond and not _beyond(kind, {})
        ]
    keeps = {
        prop: tuple(dict.fromkeys(one for kind in kept for one in kinds.get(kind, (kind,))))
        for prop, kept in promises.keeps.items()
    }
    return replace(promises, keeps=keeps)


def _beyond(kind: Traits, options: Mapping[str, str]) -> bool:
    """Whether a fault takes from a service what it relies on: true hardware, its latest state."""
    return kind.lies_with(options) or kind.reverts


def with_resource(promises: Promises, mode: str) -> Promises:
    """The promises, their design sheet with the protected resource as a field of it.

    What a stale owner can do depends on it as much as on the lock. A system that has a resource of
    its own says so in its sheet.
    """
    says = (
        f"{mode}: a store of versioned values with its own log, which {catalogue.RESOURCES[mode]}"
    )
    return replace(promises, sheet={RESOURCE: says, **promises.sheet})
