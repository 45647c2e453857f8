"""The packages of a run, of its clients and of its servers: fetched before the run exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol, runtime_checkable

import click

from holdfast.catalogue import user_system
from holdfast.clusters.libraries import environments
from holdfast.clusters.libraries.rows import LIBRARIES
from holdfast.clusters.programs import npm
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import FromPackages, Installs, Releases
from holdfast.planning import operations
from holdfast.planning.resolve import Prepared


@runtime_checkable
class Packaged(Protocol):
    """A System whose client is an adapter of a library.

    built    packages that are published as source only; adapter: the module of the adapter
    """

    built: Sequence[str]
    adapter: str


@runtime_checkable
class FromNpm(Protocol):
    """A System whose servers are pinned npm packages, fetched into one of the shared folders."""

    npm: Sequence[str]


class Fetched(NamedTuple):
    """Folders of packages, that of the client first, and the packages in them, each with its
    version."""

    folders: list[str]
    packages: list[str]


def fetch(found: Prepared) -> Fetched:
    """The packages of the client and the servers, fetched on first use.

    UsageError if this machine cannot use them or there is no such version, EnvironmentFailed if
    they cannot be fetched.
    """
    folders, packages = _of_client(found)
    pins = list[str]()
    for release in _of_servers(found):
        folders.append(str(environments.fetch(release, tell=_tell)))
        pins += release
    if isinstance(found.system, FromNpm):
        missing = npm.missing()
        if missing:
            raise UsageError(missing)
        folders.append(str(npm.fetch(found.system.npm, _tell)))
        pins = [*pins, *(f"{npm.PREFIX}{pin}" for pin in found.system.npm)]
    return Fetched(folders, [*packages, *pins])


def wanted(found: Prepared) -> Fetched:
    """The packages that are pinned, before any is fetched."""
    return Fetched([], [*found.system.libraries, *chain.from_iterable(_of_servers(found))])


def _of_servers(found: Prepared) -> list[Sequence[str]]:
    """The Python packages that hold its servers: of its release, and of each of its upgrades."""
    system = found.system
    if not isinstance(system, FromPackages):
        return []
    options: list[Mapping[str, str]] = [found.options]
    if isinstance(system, Releases):
        known = system.releases(found.options)
        options += [known[release] for release in operations.releases(found.plan)]
    return [pins for pins in dict.fromkeys(map(tuple, map(system.server_pins, options))) if pins]


def _of_client(found: Prepared) -> Fetched:
    system, pins = found.system, found.system.libraries
    packaged = system if isinstance(system, Packaged) else None
    if isinstance(system, Installs):
        installed, versions = system.install(_tell)
        return Fetched([str(installed)], list(versions))
    if user_system.file_of(found.plan.system) is not None:
        own = user_system.packages_of(found.plan.system, system)
        return Fetched(own.folders, own.versions)
    if not pins:
        return Fetched([], [])
    folder = environments.fetch(pins, packaged.built if packaged else (), _tell)
    why = environments.unusable(folder, packaged.adapter) if packaged else ""
    if why:
        usual = LIBRARIES[pins[0].partition("==")[0]].version
        raise UsageError(
            f"{pins[0]}: the adapter does not work with this version: {why}; it was written for"
            f" {usual}: use that version or one near it"
        )
    return Fetched([str(folder)], list(pins))


def _tell(line: str) -> None:
    """Progress of an installation."""
    click.echo(f"  {line}", err=True)
