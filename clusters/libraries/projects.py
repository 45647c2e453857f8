"""The packages of a project as it declares them: requirement files, lock files, an environment.

An entry of `libraries` is a requirement (`redis==5.0.8`), or a file beside the lock's own: one in
the format of pip (`requirements.txt`, also with hashes), `pylock.toml`, `uv.lock` or `poetry.lock`.
"""

from __future__ import annotations

import configparser
import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.harness.core.errors import UsageError

T = TypeVar("T")
OF_PIP = (".txt", ".in", ".lock")
NESTED = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)[ =]\s*(\S+)", re.M)
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
PLAIN_PATH = re.compile(r"^(?!import\s|#)\S.*$", re.M)


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirements:
    """What pip is asked for.

    pins    requirements, as on its command line
    files   requirement files; constraints: versions of what these depend on
    """

    pins: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    constraints: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The same in a few words, for messages."""
        return [*self.pins, *(path.name for path in self.files)]

    def content(self) -> list[str]:
        """All that decides what is installed, for a hash."""
        read = [hashlib.sha256(path.read_bytes()).hexdigest() for path in _with_nested(self.files)]
        return [*sorted(self.pins), *read, *sorted(self.constraints)]


NO_MORE = Requirements()


def is_file(entry: str) -> bool:
    """Whether an entry of `libraries` names a file."""
    return not re.search(r"[=<>~!\[ @]", entry) and entry.endswith((*OF_PIP, ".toml"))


def read(base: Path, entries: Sequence[str]) -> Requirements:
    """The requirements of entries of `libraries`. UsageError if a file is missing or unknown."""
    pins, constraints = [entry for entry in entries if not is_file(entry)], list[str]()
    files = list[Path]()
    for path in (base / entry for entry in entries if is_file(entry)):
        if not path.is_file():
            raise UsageError(f"libraries: no such file: {path}")
        if path.name in ("uv.lock", "poetry.lock"):
            direct, locked = _locked(path)
            pins, constraints = [*pins, *direct], [*constraints, *locked]
        elif path.suffix == ".toml":
            pins += _pylock(path)
        else:
            files.append(path)
    _missing_nested(files)
    return Requirements(pins=tuple(pins), files=tuple(files), constraints=tuple(constraints))


def _with_nested(files: Sequence[Path]) -> list[Path]:
    """Requirement files, and those that they name."""
    seen: dict[Path, None] = {}
    left = [*files]
    while left:
        path = left.pop(0)
        if path not in seen:
            seen[path] = None
            left += [path.parent / name for name in NESTED.findall(path.read_text())]
    return [*seen]


def _missing_nested(files: Sequence[Path]) -> None:
    try:
        _with_nested(files)
    except OSError as error:
        raise UsageError(f"libraries: {error.filename}: {error.strerror}") from error


class _Package(msgspec.Struct):
    name: str
    version: str = ""
    marker: str = ""
    source: dict[str, object] = {}


class _Pylock(msgspec.Struct, rename="kebab"):
    lock_version: str = ""
    packages: list[_Package] = []


class _Lock(msgspec.Struct):
    """A `uv.lock` or a `poetry.lock`."""

    package: list[_Package] = []


class _Needs(msgspec.Struct):
    dependencies: list[str] = []


class _Poetry(msgspec.Struct):
    dependencies: dict[str, object] = {}


class _Tools(msgspec.Struct):
    poetry: _Poetry = msgspec.field(default_factory=_Poetry)


class _Project(msgspec.Struct):
    project: _Needs = msgspec.field(default_factory=_Needs)
    tool: _Tools = msgspec.field(default_factory=_Tools)


def _toml(path: Path, form: type[T]) -> T:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        what = "" if isinstance(error, msgspec.ValidationError) else "not TOML: "
        raise UsageError(f"libraries: {path}: {what}{error}") from error


def _pylock(path: Path) -> Iterator[str]:
    """The packages of a `pylock.toml`, each with its version and marker."""
    lock = _toml(path, _Pylock)
    if not lock.lock_version:
        raise UsageError(
            f"libraries: {path.name}: no lock file: expected requirements.txt, pylock.toml,"
            " uv.lock or poetry.lock"
        )
    for one in lock.packages:
        if not one.version:
            raise UsageError(f"libraries: {path.name}: {one.name} has no version")
        yield f"{one.name}=={one.version}" + (f" ; {one.marker}" if one.marker else "")


def _locked(path: Path) -> tuple[list[str], list[str]]:
    """What the project of a lock file needs itself, and the versions of all that is locked.

    A lock lists packages of all platforms: which of them this machine needs, pip finds from those
    that the project needs itself.
    """
    packages = {
        _alike(one.name): one.version
        for one in _toml(path, _Lock).package
        if one.version and not {"virtual", "editable"} & {*one.source}
    }
    project = path.with_name("pyproject.toml")
    if not project.is_file():
        raise UsageError(f"libraries: {path.name} needs the pyproject.toml of its project")
    table = _toml(project, _Project)
    needed = [*table.project.dependencies]
    needed += [name for name in table.tool.poetry.dependencies if name != "python"]
    unlocked = [one for one in needed if _named(one) not in packages]
    if unlocked:
        raise UsageError(f"libraries: {path.name} does not lock {', '.join(unlocked)}")
    return needed, [f"{name}=={version}" for name, version in packages.items()]


def _named(requirement: str) -> str:
    name = NAME.match(requirement)
    return _alike(name[0]) if name else ""


def _alike(name: str) -> str:
    """A normalized name, as an index has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def environment(base: Path, name: str) -> list[Path]:
    """The folders from which a project's own virtual environment imports.

    UsageError if it is none, or of another version of Python than this one, which clients run on.
    """
    root = base / name
    try:
        parser = configparser.ConfigParser()
        parser.read_string(f"[of]\n{(root / 'pyvenv.cfg').read_text()}")
    except (OSError, configparser.Error) as error:
        raise UsageError(f"environment: {root} is no virtual environment: {error}") from error
    values = parser["of"]
    version = values.get("version", values.get("version_info", ""))
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if not f"{version}.".startswith(f"{own}."):
        raise UsageError(
            f"environment: {root} is of Python {version or '(unknown)'}, and clients run on {own}:"
            " make one with this version, or list the packages in libraries"
        )
    packages = root / "lib" / f"python{own}" / "site-packages"
    if not packages.is_dir():
        raise UsageError(f"environment: {packages} is missing")
    return [packages, *_editable(packages)]


def _editable(packages: Path) -> Iterator[Path]:
    """Folders that `.pth` files of an environment add, as of a project that is installed editable.

    UsageError for one that executes code instead: clients import from folders only.
    """
    for path in sorted(packages.glob("*.pth")):
        text = path.read_text()
        if path.name.startswith("__editable__") and re.search(r"^import\s", text, re.M):
            raise UsageError(
                f"environment: {path.name} imports by code: install that project without -e, or"
                " with --config-settings editable_mode=compat"
            )
        yield from (packages / line.strip() for line in PLAIN_PATH.findall(text))


def versions(folder: Path) -> list[str]:
    """The packages of a folder, each as NAME==VERSION."""
    names = (path.name.removesuffix(".dist-info") for path in folder.glob("*.dist-info"))
    return sorted("==".join(name.rsplit("-", 1)) for name in names)
