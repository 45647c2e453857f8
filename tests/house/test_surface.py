"""The public surface of the core (`holdfast.catalogue.surface`): packages import nothing else.

A door that a built-in feature uses is one that a plug-in has, but for the modules listed here.
"""

from __future__ import annotations

import ast

from holdfast.catalogue.surface import SURFACE
from tests.house import wall
from tests.house.imports import ROOT, modules, nodes, targets

BESIDE_THE_SURFACE: dict[str, tuple[str, ...]] = {
    "campaigns": (
        "engine.judging",
        "engine.runner",
        "harness.core.statistics",
        "harness.core.toml",
        "harness.verdicts.evidence",
        "harness.verdicts.left_unknown",
        "planning.lazy_holders",
        "reports.run.story",
    ),
    "containers": ("clusters.backends.abilities",),
    "disks": ("nemesis.agent.signals",),
    "hunting": ("planning.packages",),
    "large runs": (
        "harness.history.calls",
        "harness.history.distinct_values",
        "harness.history.host_clocks",
        "harness.history.packed_columns",
        "harness.recording.packed_format",
        "harness.verdicts.evidence",
    ),
    "limits": ("nemesis.agent.signals",),
    "links": ("nemesis.agent.nft",),
    "operations": (
        "harness.core.waiting",
        "harness.driver.data_folders",
    ),
    "packaging": ("reports.pictures.finding",),
    "search": (
        "checkers.evidence.costs",
        "engine.judging",
        "engine.runner",
        "planning.plan_source",
        "reports.pictures.finding",
    ),
    "server records": ("harness.recording.server_record",),
    "simulator": (
        "harness.client.resource_replies",
        "harness.client.worker",
        "harness.driver.run",
        "harness.history.so_far",
        "harness.recording.phase",
    ),
    "ssh hosts": (
        "harness.core.toml",
        "harness.history.host_clocks",
        "harness.recording.phase",
    ),
    "systems": (
        "harness.client.resource_replies",
        "harness.core.waiting",
        "harness.recording.server_record",
    ),
    "traced processes": (
        "harness.recording.call_marks",
        "nemesis.agent.signals",
        "nemesis.agent.vdso",
        "nemesis.kinds.pause",
    ),
    "verification": ("checkers.facts.legal_orders",),
}
"""Package -> modules of the core that it imports although plug-ins are not told of them. The list
may only shrink: the module becomes part of the surface, or of the package."""
IMPORTED = 82
"""Modules of the core that packages import: they may only become fewer."""
BESIDE_THE_CORE = {"catalogue", "catalogue.rows", "clusters.systems.single.system"}
"""What the third-party package names besides: rows, and a built-in system that it runs again."""


def used() -> set[tuple[str, str]]:
    """(package, module of the core that it imports)."""
    return {
        (wall.package_of(module), target)
        for module in modules()
        if wall.package_of(module) not in ("core", "door")
        for target in wall.imported(module)
        if wall.package_of(target) == "core"
    }


def test_packages_import_the_surface_of_the_core_and_no_more_than_is_listed() -> None:
    listed = {(package, one) for package, several in BESIDE_THE_SURFACE.items() for one in several}
    beside = {(package, target) for package, target in used() if target not in SURFACE}
    assert beside - listed == set(), "import what is public, or put what is shared there"
    assert listed - beside == set(), "gone: take it off the list"


def test_packages_import_no_more_modules_of_the_core() -> None:
    assert len({target for _, target in used()}) <= IMPORTED, "several tiny ones may be one idea"


def test_the_surface_is_small_and_of_the_core() -> None:
    assert len(SURFACE) == len(set(SURFACE)) <= 54
    assert [one for one in SURFACE if wall.package_of(one) != "core"] == []
    assert set(SURFACE) <= modules().keys()


def test_the_package_of_a_third_party_imports_the_surface_only() -> None:
    imported = {
        target
        for path in sorted((ROOT / "tests" / "third_party").rglob("*.py"))
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom)
        for target in targets(node)
    }
    assert imported - {*SURFACE} <= BESIDE_THE_CORE
    assert imported & {*SURFACE}
