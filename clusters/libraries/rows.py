"""The libraries that can be tested, one row of `libraries.toml` and one adapter file each."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import asdict, replace

_S = "holdfast.clusters.systems"
SERVERS = {
    "redis": f"{_S}.redis.system:SYSTEM",
    "redlock": f"{_S}.redlock.system:SYSTEM",
    "etcd": f"{_S}.etcd.system:SYSTEM",
    "flock": f"{_S}.flock.system:SYSTEM",
    "zookeeper": f"{_S}.zookeeper.system:SYSTEM",
    "postgres-advisory": f"{_S}.postgres.advisory.system:SYSTEM",
    "dynamodb": f"{_S}.dynamodb.system:SYSTEM",
    "kubernetes": f"{_S}.kubernetes.system:SYSTEM",
}
"""System -> the entry of its servers."""


class Kind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another lock of a package: its adapter, and what differs from the package's row."""

    says: str
    adapter: str
    abilities: tuple[str, ...] = ()
    source: str
    bound: str | None = None
    proves: tuple[bool, bool] | None = None
    tells: bool | None = None
    unsafe: tuple[str, ...] = ()
    ways: tuple[str, ...] = ("call",)


class LibraryRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A package, the system whose servers it uses, and further packages.

    adapters  api -> module here whose `Subject` drives it; the first is the default
    kinds     further locks of the package, as values of `api`: name -> what differs from the row
    abilities what its lock can do beyond a plain one, of `ABILITIES`
    source    where the package says what it promises, if its lock is not the plain one
    version   default
    beside    pins that it imports; the user's pin of such a package takes precedence
    sets      names of PACKAGES that it imports, too
    built     packages that are published as source only
    bound     what ends a hold besides a release, as `Promises.bound`
    proves    whether an ok renewal, and an ok release, prove that the caller owned until then
    served    its servers are packages too, listed in `beside`
    tells     it reports whether the lock is still held, and its user may rely on that
    asks      options of the servers that it requires
    elects    it renews by itself until it says that the caller leads no more, which a paused caller
              hears late
    unsafe    classes of fault under which it does not promise exclusion
    ways      values of the option `way` with which the adapter uses the library as its user would,
              the first is the default; leases: those of `expire`; renewals: those of `renew`
    """

    says: str
    system: str
    adapters: dict[str, str]
    version: str
    kinds: dict[str, Kind] = {}
    abilities: tuple[str, ...] = ()
    source: str = ""
    beside: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    built: tuple[str, ...] = ()
    bound: str = "lease"
    proves: tuple[bool, bool] = (True, True)
    served: bool = False
    tells: bool = False
    asks: dict[str, str] = {}
    elects: bool = False
    unsafe: tuple[str, ...] = ()
    ways: tuple[str, ...] = ("call",)
    leases: tuple[str, ...] = ("lease",)
    renewals: tuple[str, ...] = ("call",)

    @property
    def pins(self) -> tuple[str, ...]:
        """All packages that it imports."""
        return (*self.beside, *(pin for name in self.sets for pin in PACKAGES[name]))

    @property
    def apis(self) -> tuple[str, ...]:
        """The values of the option `api`; the first is the default."""
        return (*self.adapters, *self.kinds)

    def of(self, api: str) -> LibraryRow:
        """The row of one value of `api`, "" for the default, with one adapter."""
        api = api or self.apis[0]
        kind = self.kinds.get(api)
        if kind is None:
            return replace(self, adapters={api: self.adapters[api]}, kinds={})
        differs = {name: value for name, value in asdict(kind).items() if value is not None}
        adapter = differs.pop("adapter")
        return replace(self, **differs, adapters={api: adapter}, kinds={})


def _read() -> tuple[dict[str, tuple[str, ...]], dict[str, LibraryRow]]:
    """The table [sets], and the rows, whose headings are [system.package]."""
    systems = msgspec.toml.decode(Path(__file__).with_name("libraries.toml").read_bytes())
    sets = msgspec.convert(systems.pop("sets"), dict[str, tuple[str, ...]])
    return sets, {
        name: msgspec.convert({**row, "system": system}, LibraryRow)
        for system, rows in systems.items()
        for name, row in rows.items()
    }


PACKAGES, LIBRARIES = _read()
