"""Systems of the user (FILE.py:CLASS, FILE.toml) as rows of the catalogue.

`--system mylock.py:MyLock` is a class in a file, `--system mylock.toml` a `[system]` table.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from holdfast.catalogue import SYSTEMS
from holdfast.catalogue.rows import SystemRow
from holdfast.clusters.systems.program import command_line
from holdfast.clusters.systems.program.system import ProgramSystem, checked
from holdfast.clusters.systems.user_class import module_of
from holdfast.clusters.systems.user_class.virtual_client import refusal
from holdfast.harness.core import toml
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load, load_file
from holdfast.harness.core.ports import System
from holdfast.harness.core.user_imports import neighbours
from holdfast.harness.plans.plan import OWN

MOST = 9
CLASS = "holdfast.clusters.systems.user_class.system:"
"""Beginning of the entry of a lock class."""
HASH_DIGITS = 8


def file_of(system: str) -> Path | None:
    """The user's file that a system name refers to; None for any other system."""
    if not OWN.fullmatch(system):
        return None
    return Path(system if system.endswith(".toml") else system.rpartition(":")[0])


def row(system: str, *, again: bool = False) -> SystemRow:
    """The row of a system, from the catalogue or the user's file; again: execute the file again.

    UsageError if the file cannot be read or executed, or has no such class.
    """
    if not OWN.fullmatch(system):
        named: SystemRow = SYSTEMS[system]
        return named
    if system.endswith(".toml"):
        return _described(Path(system))
    path, _, name = system.rpartition(":")
    module = module_of(Path(path))
    if again:
        # First: the trial leaves its traces also in the modules beside the file.
        _refusal(module, name, Path(path), _source(Path(path)))
    load_file(module, Path(path), again=again)
    entry = f"{CLASS}{module}.{name}"
    made = load(entry)
    return SystemRow(
        entry=entry, says="your own lock class", nodes=made.nodes, most=MOST if made.nodes else 0
    )


def not_simulated(system: str, found: SystemRow) -> str:
    """Why a system does not run in the simulator, "" if it does.

    A lock class does if it uses nothing of the host: its servers are none, its calls are local.
    """
    path = file_of(system)
    if found.entry.startswith(CLASS):
        module, _, name = found.entry.removeprefix(CLASS).rpartition(".")
        why = _refusal(module, name, path, _source(path)) if path else refusal(_class(module, name))
        return f"{system} does not run in the simulator: {why}; use --backend local" if why else ""
    if found.simulated or not (found.most or path):
        return ""
    able = ", ".join(name for name, row in SYSTEMS.items() if row.simulated)
    return f"{system} does not run in the simulator; these do: {able}"


@functools.cache
def _refusal(module: str, name: str, path: Path, source: bytes) -> str:
    """Why a class of this source does not run in the simulator, "" if it does."""
    # The trial leaves its traces in a copy of the module, not in the one that is tested.
    load_file(f"{module}_trial", path, again=True)
    return refusal(_class(f"{module}_trial", name))


def _class(module: str, name: str) -> type[object]:
    found: type[object] = load(f"{module}:{name}")
    return found


def identity(system: str) -> str:
    """The name under which runs of a system are compared: NAME@HASH for a user's system.

    The hash covers its description: the source of a class with the modules beside it that it
    imports, the `[system]` table of a file. The folder of the file is not part of it, because it
    differs between machines.
    UsageError if the file cannot be read.
    """
    path = file_of(system)
    if path is None:
        return system
    if system.endswith(".toml"):
        # The same file may contain a plan: only the table describes the system, in any key order.
        description = json.dumps(_table(path), sort_keys=True, default=str).encode()
    else:
        description = _source(path)
    return f"{declared_name(system)}@{hashlib.sha256(description).hexdigest()[:HASH_DIGITS]}"


def declared_name(system: str) -> str:
    """Display name of a system: a table's `name`, else its file's name; FILE.py:CLASS."""
    path = file_of(system)
    if path is None:
        return system
    if not system.endswith(".toml"):
        return f"{path.name}:{system.rpartition(':')[2]}"
    return str(_table(path).get("name", path.stem))


def _source(path: Path) -> bytes:
    """A user's file, and the modules beside it that it imports."""
    return b"".join([_bytes(path), *(_bytes(file) for _, file in sorted(neighbours(path).items()))])


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _table(path: Path) -> dict[str, Json]:
    """The `[system]` table of a file. UsageError if there is none."""
    try:
        table = toml.loads(_bytes(path).decode()).get("system")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    if not isinstance(table, dict):
        raise UsageError(f"{path}: missing table [system]")
    return table


def _described(path: Path) -> SystemRow:
    """The row of a `[system]` table; UsageError lists all its mistakes."""
    table = _table(path)
    nodes = checked(table, str(path)).nodes
    return SystemRow(
        entry=f"holdfast.clusters.systems.program.system:{json.dumps(table)}",
        says="your own lock in any language",
        nodes=nodes,
        most=MOST if nodes else 0,
    )


def _base(system: str) -> Path:
    """The folder that a system's file names are relative to."""
    path = file_of(system)
    return Path() if path is None else path.parent


def missing_files(system: str, made: System, options: Mapping[str, str]) -> list[str]:
    """Missing files of a client program, one line each; `made`: the system of that name."""
    if not isinstance(made, ProgramSystem):
        return []
    base, argv = _base(system), made.argv(options)
    if not argv:
        return [f"{system}: missing command of the client: --client './client {{node}}'"]
    missing = [name for name in made.files if not (base / name).exists()]
    if not shutil.which(argv[0]) and not (base / argv[0]).is_file() and "{" not in argv[0]:
        missing.insert(0, argv[0])
    return [f"{system}: no such file: {base / name}" for name in missing]


def program_options(
    system: str, made: System, options: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """Options of a client program for the workers; copies its files to `folder`.

    Empty if the system's client is not a program.
    """
    if not isinstance(made, ProgramSystem):
        return {}
    base, argv = _base(system), made.argv(options)
    named = [*argv, *made.server_words(), *made.files]
    folder.mkdir()
    for name in dict.fromkeys([*command_line.files(named, base), *made.files]):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (base / name).is_dir() else shutil.copy2
        copy(base / name, target)
    return {"argv": json.dumps(argv), "folder": str(folder)}


def fingerprint(systems: Iterable[str]) -> str:
    """Hash of the users' files among these systems."""
    found = hashlib.sha256()
    for path in sorted({path for name in systems if (path := file_of(name)) is not None}):
        found.update(_source(path) if path.suffix == ".py" else _bytes(path))
    return found.hexdigest()[:16]
