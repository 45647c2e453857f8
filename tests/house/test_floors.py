"""The floors inside rooms: a folder imports only folders below it, and no folder is flat."""

from __future__ import annotations

import pytest

from tests.house.imports import cycles, folder, loaded, modules

FLOORS = {
    "harness": (
        ("harness.core",),
        ("harness.properties",),
        ("harness.plans", "harness.recording", "harness.foreign", "harness.verdicts"),
        ("harness.runs",),
        ("harness.client", "harness.history", "harness.verification"),
        ("harness.verification.properties", "harness.driver", "harness.judging"),
        ("harness.campaigns",),
    ),
    "checkers": (
        ("checkers.holds",),
        ("checkers.facts",),
        ("checkers.opportunities.places",),
        ("checkers.opportunities",),
        ("checkers.coverage",),
        ("checkers.evidence",),
        ("checkers.properties",),
        ("checkers.linearizability.exact",),
        ("checkers.linearizability",),
    ),
    "clusters": (
        ("clusters.systems.reference.wire", "clusters.systems.reference.specification"),
        ("clusters.systems.reference.locks", "clusters.systems.reference.consensus"),
        ("clusters.systems.reference.service",),
        ("clusters.systems.reference.client",),
        ("clusters.systems.reference.mutants",),
        ("clusters.backends.docker", "clusters.backends.ssh", "clusters.backends.local"),
        ("clusters.backends.sim",),
        ("clusters.backends.sim.observed",),
    ),
    "nemesis": (("nemesis.agent",), ("nemesis",), ("nemesis.kinds",)),
    "workloads": (("workloads",), ("workloads.kinds", "workloads.resource")),
    "reports": (
        ("reports", "reports.text"),
        ("reports.pictures",),
        ("reports.run",),
        ("reports.many", "reports.outputs"),
    ),
    "front door": (
        ("catalogue",),
        ("scenarios",),
        ("lenses",),
        ("planning",),
        ("conformance", "engine"),
        ("campaigns",),
        ("foreign", "rewind", "hunting"),
        ("packaging",),
        ("serve", "pytest", "api"),
        ("commands",),
    ),
}
"""Per room its folders, the lowest floor first. A folder imports itself and lower floors only.
Folders that are not named (one lock service each) are on no floor."""

MANY = {
    "checkers.properties",
    "commands",
    "harness.properties",
    "harness.verification.properties",
    "nemesis.kinds",
    "workloads.kinds",
}
"""Folders with one file per catalogue entry, however many there are."""
MOST_MODULES = 18


@pytest.mark.parametrize("room", FLOORS)
def test_a_folder_imports_only_folders_below_it(room: str) -> None:
    height = {name: n for n, names in enumerate(FLOORS[room]) for name in names}
    wrong = [
        f"{module} imports {target}"
        for module in modules()
        if folder(module) in height
        for target in loaded(module) & modules().keys()
        if folder(target) in height and folder(target) != folder(module)
        if height[folder(target)] >= height[folder(module)]
    ]
    assert not wrong, "\n".join(wrong)


def test_every_folder_of_the_floors_exists() -> None:
    named = {name for floors in FLOORS.values() for names in floors for name in names}
    assert named <= {folder(module) for module in modules()}


def test_no_module_loads_itself_through_others() -> None:
    assert cycles() == []


def test_no_folder_is_flat() -> None:
    inside: dict[str, list[str]] = {}
    for module, path in modules().items():
        if path.name != "__init__.py":
            inside.setdefault(folder(module), []).append(module)
    flat = {name: len(own) for name, own in inside.items() if len(own) > MOST_MODULES}
    assert {name for name in flat if not name.endswith("adapters")} <= MANY, flat
