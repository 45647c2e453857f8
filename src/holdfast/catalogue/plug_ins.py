"""Rows that are not built in: installed plug-ins (entry points) and FILE.py:NAME of the user.

A distribution offers `holdfast.systems`, `.workloads`, `.nemeses`, `.checkers`, `.backends` and
`.lenses`; an entry point names an object as "package.module:ATTRIBUTE". What may stand there is the
same as in a file of the user. A broken one is named when it is used or listed, and changes nothing
else.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from holdfast.catalogue.rows import BackendRow, NemesisRow, SystemRow, WorkloadRow
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import (
    PREFIX,
    load,
    load_file,
    module_of,
    neighbours,
    no_attribute,
)
from holdfast.harness.plans.plan import FILE, lock_and_servers

KINDS = ("systems", "workloads", "nemeses", "checkers", "backends", "lenses")
MOST_SERVERS = 9


@dataclass(frozen=True, kw_only=True, slots=True)
class PlugIn:
    """One entry point. value: "package.module:ATTRIBUTE"; origin: distribution and version."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryPoint:
    """Where an object is found: its module, its attribute; `by` names it in messages."""

    module: str
    attr: str
    by: str

    @property
    def dotted(self) -> str:
        return f"{self.module}.{self.attr}"

    @property
    def entry(self) -> str:
        return f"{self.module}:{self.attr}"


@functools.cache
def installed(kind: str) -> Mapping[str, PlugIn]:
    """Installed plug-ins of a kind by name, of which nothing is imported yet."""
    found: dict[str, PlugIn] = {}
    for point in metadata.entry_points(group=f"holdfast.{kind}"):
        origin = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"
        found.setdefault(point.name, PlugIn(name=point.name, value=point.value, origin=origin))
    return found


def row(kind: str, name: str) -> Any:
    """The row of a plug-in or of a user's file. KeyError for another name; UsageError if it cannot
    be loaded or is no such object."""
    place = place_of(kind, name)
    made = _loaded(place)
    return MAKERS[kind](place, made)


def usable(kind: str, built_in: Container[str]) -> Iterator[tuple[PlugIn, Any, str]]:
    """Installed plug-ins of a kind, each with its row, or with None and why it cannot be used.

    built_in   names that no plug-in can have
    """
    for plug_in in installed(kind).values():
        if plug_in.name in built_in:
            yield plug_in, None, f"{_by(plug_in)}: the name is built in, so it is not used"
            continue
        try:
            yield plug_in, row(kind, plug_in.name), ""
        except UsageError as error:
            yield plug_in, None, str(error).splitlines()[0]


def place_of(kind: str, name: str) -> EntryPoint:
    """Where the object of a name is found; executes a user's file. KeyError for another name."""
    plug_in = installed(kind).get(name)
    if plug_in is not None:
        module, colon, attr = plug_in.value.partition(":")
        if not colon:
            module, _, attr = plug_in.value.rpartition(".")
        return EntryPoint(module=module.strip(), attr=attr.strip(), by=_by(plug_in))
    if not FILE.fullmatch(name):
        raise KeyError(name)
    path, _, attr = name.rpartition(":")
    module = module_of(Path(path))
    load_file(module, Path(path))
    return EntryPoint(module=module, attr=attr, by=name)


def sources(kind: str, name: str) -> dict[str, Path]:
    """The Python files that a plug-in or a user's file consists of, by their path below a folder of
    the import path; {} for a built-in name.

    A user's file comes with the modules beside it that it imports, a plug-in with all modules of
    its top-level package. UsageError if they are not files.
    """
    lock, _ = lock_and_servers(name) if kind == "systems" else (name, "")
    if FILE.fullmatch(lock):
        path = Path(lock.rpartition(":")[0])
        return {f"{module_of(path)}.py": path, **neighbours(path)}
    plug_in = installed(kind).get(name)
    if plug_in is None:
        return {}
    top = plug_in.value.partition(":")[0].partition(".")[0]
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise UsageError(f"{_by(plug_in)}: {top} is no package of files")
    origin = Path(spec.origin)
    if spec.submodule_search_locations is None:
        return {origin.name: origin}
    files = sorted(origin.parent.rglob("*.py"))
    return {str(path.relative_to(origin.parent.parent)): path for path in files}


def _by(plug_in: PlugIn) -> str:
    return f"plug-in {plug_in.name} of {plug_in.origin}"


def _loaded(place: EntryPoint) -> object:
    try:
        module = importlib.import_module(place.module)
    except Exception as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UsageError(f"{place.by}: cannot be loaded: {why}") from error
    try:
        return getattr(module, place.attr)
    except AttributeError as error:
        raise UsageError(f"{place.by}: {no_attribute(module, place.attr)}") from error


def _forget(package: str) -> None:
    """Import a package again the next time. A lock that keeps its state in memory is one service in
    the simulator; another run of the same process begins with a new one."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def _says(made: object, usual: str) -> str:
    """The first line of an object's own docstring without its full stop."""
    text = (vars(made).get("__doc__") if hasattr(made, "__dict__") else None) or usual
    return str(text).strip().splitlines()[0].rstrip(".")


def _system(place: EntryPoint, made: object) -> SystemRow:
    if isinstance(made, SystemRow):
        return made
    _forget(place.module.partition(".")[0])
    entry = f"holdfast.clusters.systems.user_class.system:{place.dotted}"
    nodes = load(entry).nodes
    says = _says(made, "a lock class")
    return SystemRow(entry=entry, says=says, nodes=nodes, most=MOST_SERVERS if nodes else 0)


def _workload(place: EntryPoint, made: object) -> WorkloadRow:
    entry = f"holdfast.workloads.user_workload:{place.dotted}"
    workload = load(entry)
    return WorkloadRow(entry=entry, says=_says(made, "a workload"), needs=tuple(workload.NEEDS))


def _nemesis(place: EntryPoint, made: object) -> NemesisRow:
    entry = f"holdfast.nemesis.user_nemesis:{place.dotted}"
    load(entry)
    says = _says(made if isinstance(made, type) else type(made), "a nemesis")
    return NemesisRow(entry=entry, says=says)


def _checker(place: EntryPoint, made: object) -> str:
    from holdfast.checkers.user_checker import UserChecker

    if not isinstance(made, UserChecker):
        raise UsageError(
            f"{place.by}: not a checker: decorate the function with"
            " holdfast.checkers.user_checker.checker"
        )
    return place.entry


def _backend(place: EntryPoint, made: object) -> BackendRow:
    if not isinstance(made, BackendRow):
        raise UsageError(f"{place.by}: expected a holdfast.catalogue.rows.BackendRow")
    return made


def _lens(place: EntryPoint, made: object) -> str:
    from holdfast.harness.judging.lens import Lens

    if not isinstance(made, Lens):
        raise UsageError(f"{place.by}: expected a holdfast.harness.judging.lens.Lens")
    return place.entry


MAKERS: Mapping[str, Callable[[EntryPoint, object], object]] = {
    "systems": _system,
    "workloads": _workload,
    "nemeses": _nemesis,
    "checkers": _checker,
    "backends": _backend,
    "lenses": _lens,
}

__all__ = ["KINDS", "PREFIX", "PlugIn", "installed", "place_of", "row", "sources", "usable"]
