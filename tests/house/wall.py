"""The core of the project and the packages beside it, by module; the imports that cross the wall.

The core plans, runs, records, judges and reports a run on local processes, under plain faults. What
stands beside it may import it; the core shall not import what stands beside it. Doors (commands,
the catalogues, the pytest plugin) name everything and are on neither side.

What every reader of a history has to know is core, whichever feature wrote it: the form of packed
segments, which every longer run has, and the clocks of hosts. What derives facts from holds is core
too, whoever asks for it: a legal order, what a grant cost, coverage summed over parts.
"""

from __future__ import annotations

import ast
import functools

from tests.house.imports import modules, nodes, targets


def kinds(names: str) -> list[str]:
    """Modules of kinds of fault."""
    return [f"nemesis.kinds.{name}" for name in names.split()]


PACKAGES: dict[str, tuple[str, ...]] = {
    "systems": ("clusters.systems", "clusters.libraries", "clusters.programs", "own_servers"),
    "simulator": ("clusters.backends.sim",),
    "containers": ("clusters.backends.docker",),
    "ssh hosts": ("clusters.backends.ssh",),
    "verification": (
        "harness.verification",
        "harness.judging.certificates",
        "lenses.certificates",
    ),
    "foreign histories": (
        "harness.foreign",
        "checkers.linearizability",
        "foreign",
        "reports.pictures.linearization",
        "reports.run.foreign_page",
    ),
    "campaigns": (
        "harness.campaigns",
        "planning.fingerprints",
        "campaigns",
        "reports.many",
        "reports.pictures.run_strip",
        "reports.outputs.gate",
        "reports.text.least_tried",
        "reports.outputs.junit",
    ),
    "search": (
        "engine.changed_lines",
        "engine.determinism",
        "engine.seed_search",
        "engine.shrinker",
        "engine.swarm",
        "engine.sweep",
        "engine.sweep_progress",
        "engine.trials",
        "harness.history.diff",
        "harness.plans.shrink",
        "reports.pictures.space_time",
        "rewind",
    ),
    "hunting": ("hunting",),
    "packaging": ("packaging",),
    "conformance": ("conformance",),
    "traces": ("lenses.traces", "harness.judging.recorded_trace", "harness.verdicts.specification"),
    "server records": (
        "harness.judging.recorded_holds",
        "harness.judging.server_record",
        "harness.runs.server_record",
        "lenses.server_record",
        "reports.run.server_record",
    ),
    "large runs": (
        "harness.history.parts",
        "harness.history.segment_packer",
        "harness.judging.parts",
        "harness.judging.settled_findings",
        "lenses.in_parts",
        "lenses.packing",
    ),
    "live verdicts": (
        "harness.history.beside_run",
        "harness.history.growing",
        "lenses.live_verdicts",
    ),
    "disks": (
        "nemesis.agent.disks",
        "planning.server_disks",
        *kinds("disk_full disk_hang power sync_lie"),
    ),
    "limits": ("nemesis.agent.limits", *kinds("cpu_quota memory_limit open_files")),
    "links": (
        "nemesis.agent.links",
        "nemesis.link_fault",
        *kinds("bandwidth half_open mtu_black_hole neighbour_lost packet_corrupt packet_duplicate"),
        *kinds("packet_loss packet_reorder refuse_connections slow_links zero_window"),
    ),
    "traced processes": (
        "nemesis.agent.absolute_waits",
        "nemesis.agent.suspends",
        "nemesis.agent.tracing",
        *kinds("disk_error disk_slow failpoint freeze freeze_write suspend syscall torn_write"),
    ),
    "operations": (
        *kinds("backup_restore compact defragment manual_failover replace_member rollback"),
        *kinds("rolling_restart rolling_upgrade"),
        "harness.driver.failover",
        "harness.driver.maintenance",
        "harness.driver.operations",
        "harness.driver.rolling",
        "planning.operations",
    ),
}
"""Package -> its modules, and folders with all that is in them."""

DOORS = (
    "api",
    "catalogue",
    "commands",
    "docgen",
    "nemesis.agent.parts",
    "pytest",
    "scenarios",
    "serve",
    "starters",
)
"""Folders and modules that name everything; that of the fault agent names its features."""


@functools.cache
def package_of(module: str) -> str:
    """The package of a module, "core" or "door"."""
    for name, parts in {**PACKAGES, "door": DOORS}.items():
        if any(module == part or module.startswith(f"{part}.") for part in parts):
            return name
    return "door" if not module else "core"


@functools.cache
def imported(module: str) -> frozenset[str]:
    """The modules that a module imports, inside functions too; not those for types only."""
    path = modules()[module]
    for_types = {
        id(node)
        for branch in nodes(path)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    found = (
        node
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and id(node) not in for_types
    )
    known = modules().keys()
    return frozenset(n for node in found for n in targets(node) if n != module and n in known)


def arrows() -> set[tuple[str, str]]:
    """(module of the core, module of a package that it imports)."""
    return {
        (module, target)
        for module in modules()
        if package_of(module) == "core"
        for target in imported(module)
        if package_of(target) not in ("core", "door")
    }


def lazy_imports() -> dict[str, int]:
    """Module -> number of its imports of the project inside functions, without doors."""
    found = {}
    for module, path in modules().items():
        if package_of(module) == "door":
            continue
        inside = [
            node
            for function in nodes(path)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(function)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast")
        ]
        if inside:
            found[module] = len({id(node) for node in inside})
    return found


def widest() -> tuple[str, int]:
    """The module of the core that imports the most others, and their number."""
    core = [module for module in modules() if package_of(module) == "core"]
    return max(((module, len(imported(module))) for module in core), key=lambda one: one[1])
