"""The packages of a run, of its clients and of its servers: fetched before the run exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import click

from holdfast import catalogue
from holdfast.catalogue import user_system
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import UPGRADE
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import FromPackages, Installs, Releases
from holdfast.harness.plans.plan import Plan
from holdfast.planning.resolve import Prepared


@runtime_checkable
class Packaged(Protocol):
    """A System whose client is an adapter of a library.

    built    packages that are published as source only
    """

    built: Sequence[str]

    def unusable(self, folder: Path) -> str:
        """Why the adapter does not work with the packages of a folder, "" if it does."""
        ...


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
        folders.append(str(_fetched(release)))
        pins += release
    return Fetched(folders, [*packages, *pins])


def wanted(found: Prepared) -> Fetched:
    """The packages that are pinned, before any is fetched."""
    return Fetched([], [*found.system.libraries, *chain.from_iterable(_of_servers(found))])


def _of_servers(found: Prepared) -> list[Sequence[str]]:
    """The packages that hold its servers: of its release, and of each of its upgrades."""
    system = found.system
    if not isinstance(system, FromPackages):
        return []
    options: list[Mapping[str, str]] = [found.options]
    if isinstance(system, Releases):
        known = system.releases(found.options)
        options += [known[release] for release in _upgraded_to(found.plan)]
    return [pins for pins in dict.fromkeys(map(tuple, map(system.server_pins, options))) if pins]


def _upgraded_to(plan: Plan) -> list[str]:
    """The releases to which servers are upgraded in a plan, each once."""
    planned = [*plan.nemeses, *((fault.do, fault.params) for fault in plan.faults)]
    kinds = [
        options["to"]
        for name, options in planned
        if catalogue.NEMESES[name].traits.operates == UPGRADE
    ]
    return list(dict.fromkeys(kinds))


def _fetched(pins: Sequence[str], built: Sequence[str] = ()) -> Path:
    """The folder of these packages, all of one index."""
    index = next((one for one in catalogue.FETCHERS if one and pins[0].startswith(one)), "")
    folder: Path = load(catalogue.FETCHERS[index])(pins, built, _tell)
    return folder


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
    folder = _fetched(pins, packaged.built if packaged else ())
    if packaged is not None and (why := packaged.unusable(folder)):
        raise UsageError(why)
    return Fetched([str(folder)], list(pins))


def _tell(line: str) -> None:
    """Progress of an installation."""
    click.echo(f"  {line}", err=True)
