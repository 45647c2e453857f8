"""Systems of the user (FILE.py:CLASS, FILE.toml) as rows of the catalogue.

`--system mylock.py:MyLock` is a class in a file, `--system mylock.toml` a `[system]` table. With
`@redis` behind it, or `server = "redis"` in it, its servers are those of a built-in system.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from holdfast.catalogue import SYSTEMS, own_packages
from holdfast.catalogue.rows import SystemRow
from holdfast.clusters.libraries.lock_on_servers import OwnLock, lock_of
from holdfast.clusters.systems.composed.system import ComposedSystem, described
from holdfast.clusters.systems.program import command_line
from holdfast.clusters.systems.program.system import ProgramSystem, checked
from holdfast.clusters.systems.user_class.system import OwnSystem
from holdfast.clusters.systems.user_class.virtual_client import refusal
from holdfast.harness.core import toml
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load, load_file, module_of, neighbours
from holdfast.harness.core.ports import System
from holdfast.harness.plans.plan import OWN, lock_and_servers, suggest

MOST = 9
CLASS = "holdfast.clusters.systems.user_class.system:"
"""Beginning of the entry of a lock class."""
TABLE = "holdfast.clusters.systems.program.system:"
COMPOSED = "holdfast.clusters.systems.composed.system:"
"""Beginnings of the entry of a table, without and with a compose file."""
ON_SERVERS = "holdfast.clusters.libraries.lock_on_servers:"
"""Beginning of the entry of a user's lock on the servers of a built-in system."""
HASH_DIGITS = 8


def file_of(system: str) -> Path | None:
    """The user's file that a system name refers to; None for any other system."""
    lock, _ = lock_and_servers(system)
    if lock.endswith(".toml"):
        return Path(lock)
    return Path(lock.rpartition(":")[0]) if OWN.fullmatch(lock) else None


def row(system: str, *, again: bool = False) -> SystemRow:
    """The row of a system, from the catalogue or the user's file; again: execute the file again.

    UsageError if the file cannot be read or executed, or has no such class.
    """
    lock, servers = lock_and_servers(system)
    if not OWN.fullmatch(lock):
        named: SystemRow = SYSTEMS[lock]
        return _on_servers(system, named, servers)
    if lock.endswith(".toml"):
        return _on_servers(system, _described(Path(lock)), servers)
    path, _, name = lock.rpartition(":")
    module = module_of(Path(path))
    if again:
        # First: the trial leaves its traces also in the modules beside the file.
        _refusal(module, name, Path(path), _source(Path(path)))
    _execute(module, Path(path), again=again)
    entry = f"{CLASS}{module}.{name}"
    made = load(entry)
    most = MOST if made.nodes else 0
    own = SystemRow(entry=entry, says="your own lock class", nodes=made.nodes, most=most)
    return _on_servers(system, own, servers)


def _on_servers(system: str, own: SystemRow, servers: str) -> SystemRow:
    """The row of a user's lock on the servers that its name or its declaration names.

    UsageError for servers that it has twice, and for a system without servers.
    """
    if not servers and not OWN.fullmatch(system):
        return own
    made: OwnLock = load(own.entry)
    if servers and (made.nodes or made.server_of):
        raise UsageError(f"{system}: it has servers of its own: leave out @{servers}")
    servers = servers or made.server_of
    if not servers:
        return own
    able = [name for name, row in SYSTEMS.items() if row.most]
    if servers not in able:
        raise UsageError(f"{system}: {suggest(servers, able, 'system with servers')}")
    row: SystemRow = SYSTEMS[servers]
    return replace(
        row,
        entry=f"{ON_SERVERS}{row.entry}={own.entry}",
        says=f"{own.says}, on the servers of {servers}",
        simulated="",
        specification="",
        recorded="",
        known=(),
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
    able = [name for name, row in SYSTEMS.items() if row.simulated or row.clients_simulated]
    return f"{system} does not run in the simulator; these do: {', '.join(able)}"


@functools.cache
def _refusal(module: str, name: str, path: Path, source: bytes) -> str:
    """Why a class of this source does not run in the simulator, "" if it does."""
    # The trial leaves its traces in a copy of the module, not in the one that is tested.
    _execute(f"{module}_trial", path, again=True)
    return refusal(_class(f"{module}_trial", name))


def _execute(module: str, path: Path, *, again: bool) -> None:
    """Execute a user's file as a module, with the packages that its classes declare where it
    imports one that is not installed here. UsageError if that fails."""
    try:
        load_file(module, path, again=again)
    except UsageError as error:
        lacking = isinstance(error.__cause__, ModuleNotFoundError)
        libraries, environment = declared_libraries(_bytes(path)) if lacking else ((), "")
        if not (libraries or environment):
            raise
        made = own_packages.found(path.parent, libraries, environment, _progress)
        new = [folder for folder in made.folders if folder not in sys.path]
        if not new:
            raise
        # Last, so that what Holdfast itself imports stays what it is.
        sys.path += new
        load_file(module, path, again=again)


def packages_of(system: str, made: System) -> own_packages.Packages:
    """The packages that a user's lock imports, fetched on first use. Raises as `own_packages`."""
    lock = lock_of(made)
    environment = lock.environment if isinstance(lock, ProgramSystem | OwnSystem) else ""
    return own_packages.found(_base(system), lock.libraries, environment, _progress)


def declared_libraries(source: bytes) -> tuple[tuple[str, ...], str]:
    """The `libraries` and the `environment` of the classes of a Python file, read without executing
    it; none if they are no literals."""
    pins: dict[str, None] = {}
    environment = ""
    try:
        classes = [one for one in ast.parse(source).body if isinstance(one, ast.ClassDef)]
        for statement in (one for made in classes for one in made.body):
            for name, value in _assigned(statement):
                if name == "libraries":
                    pins |= dict.fromkeys(map(str, ast.literal_eval(value)))
                elif name == "environment":
                    environment = str(ast.literal_eval(value))
    except (SyntaxError, ValueError, TypeError):
        return (), ""
    return tuple(pins), environment


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement assigns, with their expressions: `a = 1`, `a, b = 1, 2`."""
    if not isinstance(statement, ast.Assign):
        return
    value = statement.value
    for target in statement.targets:
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=True))
        yield from ((name.id, part) for name, part in pairs if isinstance(name, ast.Name))


def _progress(line: str) -> None:
    sys.stderr.write(f"  {line}\n")


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
    if path.suffix == ".toml":
        # The same file may contain a plan: only the table describes the system, in any key order.
        description = _description(path)
    else:
        description = _source(path)
    return f"{declared_name(system)}@{hashlib.sha256(description).hexdigest()[:HASH_DIGITS]}"


def declared_name(system: str) -> str:
    """Display name of a system: a table's `name`, else its file's name; FILE.py:CLASS."""
    path = file_of(system)
    if path is None:
        return system
    lock, servers = lock_and_servers(system)
    at = f"@{servers}" if servers else ""
    if path.suffix != ".toml":
        return f"{path.name}:{lock.rpartition(':')[2]}{at}"
    return f"{_table(path).get('name', path.stem)}{at}"


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
    entry, says = f"{TABLE}{json.dumps(table)}", "your own lock in any language"
    if "compose" in table:
        whole = described(table, path.parent, str(path))
        entry, says = f"{COMPOSED}{json.dumps(whole)}", "your own cluster, of a compose file"
        nodes = ComposedSystem(whole).nodes
    return SystemRow(entry=entry, says=says, nodes=nodes, most=MOST if nodes else 0)


def _description(path: Path) -> bytes:
    """What a `[system]` table describes, with its compose file and the files that this mounts: in
    any order of keys, without the folder, which differs between machines."""
    table = _table(path)
    if "compose" not in table:
        return json.dumps(table, sort_keys=True, default=str).encode()
    whole = described(table, path.parent, str(path))
    made = ComposedSystem(whole)
    text = json.dumps({**whole, "base": ""}, sort_keys=True, default=str).encode()
    mounted = [path.parent / name for name in sorted(made.mounted)]
    files = [file for name in mounted for file in ([name] if name.is_file() else name.rglob("*"))]
    return b"".join([text, *(file.read_bytes() for file in sorted(files) if file.is_file())])


def _composed(path: Path) -> bool:
    """Whether a file is a table that names a compose file."""
    return path.suffix == ".toml" and "compose" in _table(path)


def _base(system: str) -> Path:
    """The folder that a system's file names are relative to."""
    path = file_of(system)
    return Path() if path is None else path.parent


def missing_files(system: str, made: System, options: Mapping[str, str]) -> list[str]:
    """Missing files of a client program, one line each; `made`: the system of that name."""
    made = lock_of(made)
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
    made = lock_of(made)
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
    imports = packages_of(system, made)
    if imports.modules is not None:
        # Node looks for packages beside its program.
        (folder / imports.modules.name).symlink_to(imports.modules)
    listed = {"abilities": json.dumps(list(made.listed())), "path": ":".join(imports.folders)}
    return {"argv": json.dumps(argv), "folder": str(folder), **listed}


def fingerprint(systems: Iterable[str]) -> str:
    """Hash of the users' files among these systems."""
    found = hashlib.sha256()
    for path in sorted({path for name in systems if (path := file_of(name)) is not None}):
        found.update(_source(path) if path.suffix == ".py" else _bytes(path))
        found.update(_description(path) if _composed(path) else b"")
    return found.hexdigest()[:16]
