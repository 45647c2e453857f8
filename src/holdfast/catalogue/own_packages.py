"""The packages that a user's lock imports: fetched as it lists them, or its project's environment.

`libraries` has requirements, files of requirements and locks of versions (`projects.py`), and for a
program in Node `npm:NAME@VERSION` or `package.json`. `environment` names a virtual environment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast.clusters.libraries import environments, projects
from holdfast.clusters.programs import npm
from holdfast.harness.core.errors import UsageError

OF_NODE = "package.json"


class Packages(NamedTuple):
    """What a lock imports.

    folders   from which Python imports; versions: of all packages
    modules   the folder `node_modules` of a program in Node; None: none
    """

    folders: list[str]
    versions: list[str]
    modules: Path | None


def found(
    base: Path, libraries: Sequence[str], environment: str, tell: Callable[[str], None]
) -> Packages:
    """The packages, fetched on first use.

    base  the folder that their file names are relative to

    UsageError for a file that is missing or for versions that do not exist, EnvironmentFailed if
    they cannot be fetched.
    """
    folders, versions, modules = list[str](), list[str](), None
    if environment:
        own = projects.environment(base, environment)
        folders, versions = list(map(str, own)), projects.versions(own[0])
    for_node = [one for one in libraries if one.startswith(npm.PREFIX) or _names_node(one)]
    python = [one for one in libraries if one not in for_node]
    if python:
        wanted = projects.read(base, python)
        folder = environments.fetch((), tell=tell, dependencies=True, more=wanted)
        folders, versions = [*folders, str(folder)], [*versions, *projects.versions(folder)]
    if for_node:
        target = _of_node(base, for_node, tell)
        modules, versions = target / "node_modules", [*versions, *npm.installed(target)]
    return Packages(folders, versions, modules)


def _names_node(entry: str) -> bool:
    return Path(entry).name == OF_NODE


def _of_node(base: Path, entries: Sequence[str], tell: Callable[[str], None]) -> Path:
    """The folder of packages of npm, of a project or of pins."""
    if lacking := npm.missing():
        raise UsageError(lacking)
    files = [base / one for one in entries if _names_node(one)]
    if not files:
        return npm.fetch([one.removeprefix(npm.PREFIX) for one in entries], tell)
    if len(entries) > 1:
        raise UsageError(f"libraries: {OF_NODE} lists all packages of npm: leave out the others")
    if not files[0].is_file():
        raise UsageError(f"libraries: no such file: {files[0]}")
    return npm.fetch_project(files[0], tell)
