"""The packages of other languages that can be tested, each with a client program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import asdict, replace

from holdfast.harness.core.errors import UsageError

FOLDER = Path(__file__).parent
RENEWALS = ("call", "library")


class ProgramKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs from the package's row with one value of `api`; None: nothing.

    hunted  whether `hunt` uses it, too, as a plain lock
    """

    says: str | None = None
    hunted: bool = False
    program: str | None = None
    abilities: tuple[str, ...] = ()
    most_permits: int = 0
    source: str | None = None
    renewals: tuple[str, ...] | None = None
    proves: tuple[bool, bool] | None = None
    unsafe: dict[str, tuple[str, ...]] | None = None
    notices: str | None = None
    tokens: tuple[str, ...] | None = None


class ProgramRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A package, the system whose servers it uses, and the client program that calls it.

    program   its file, relative to this folder; those beside it are shipped too
    version   default; others: further ones that were tried
    older     beginning of a version -> the program for it, if it is another one; there the client
              renews, whatever the newer package can do
    beside    pins that the program imports as well
    apis      values of the option `api`: the package's kinds of lock; the first is the default
    kinds     value of `api` -> what differs with it
    abilities what its lock can do beyond a plain one, of `ABILITIES`; most_permits: how many
              permits one acquire can ask for, 0: any number
    renewals  values of the option `renew` that the package supports, the first is the default.
              call: the client renews, and a hold ends with its lease. library: the package renews
              by itself, and its user may rely on the hold until its notice of the loss, if any
    bound     what ends a hold besides a release and such a notice, if the client renews
    proves    whether an ok renewal, and an ok release, prove that the caller owned until then
    unsafe    option `renew` -> classes of fault under which the package does not promise exclusion
    notices   how it notifies of a loss, "" if it does not
    tells     option `renew` -> classes of fault under which that notice comes within a lease
    tokens    values of the option `tokens`: where the program takes a fencing token from, which
              the package does not return with the grant; the first is the default
    token_from  how the program gets it
    source    where the package says what it promises
    """

    says: str
    program: str
    version: str
    source: str
    system: str = ""
    others: tuple[str, ...] = ()
    older: dict[str, str] = {}
    beside: tuple[str, ...] = ()
    apis: tuple[str, ...] = ("",)
    kinds: dict[str, ProgramKind] = {}
    abilities: tuple[str, ...] = ()
    most_permits: int = 0
    renewals: tuple[str, ...] = ("call",)
    bound: str = "lease"
    proves: tuple[bool, bool] = (True, True)
    unsafe: dict[str, tuple[str, ...]] = {}
    notices: str = ""
    tells: dict[str, tuple[str, ...]] = {}
    tokens: tuple[str, ...] = ("none",)
    token_from: str = "read after the grant"

    def of(self, api: str) -> ProgramRow:
        """The row with one value of `api`, "" for the default."""
        kind = self.kinds.get(api or self.apis[0])
        if kind is None:
            return self
        differs = {k: v for k, v in asdict(kind).items() if v is not None and k != "hunted"}
        return replace(self, **differs)

    @property
    def hunted(self) -> tuple[str, ...]:
        """The values of `api` that are ways of using one and the same lock."""
        return tuple(api for api in self.apis if api not in self.kinds or self.kinds[api].hunted)

    def renewals_of(self, version: str) -> tuple[str, ...]:
        """The values of the option `renew` for a version."""
        return self.renewals if self.program_of(version) == self.program else ("call",)

    def program_of(self, version: str) -> str:
        """The file of the client program for a version."""
        programs = (name for first, name in self.older.items() if version.startswith(f"{first}."))
        return next(programs, self.program)


def _read() -> dict[tuple[str, str], ProgramRow]:
    systems = msgspec.toml.decode((FOLDER / "programs.toml").read_bytes())
    return {
        (system, package): msgspec.convert({**row, "system": system}, ProgramRow)
        for system, rows in systems.items()
        for package, row in rows.items()
    }


PROGRAMS: Mapping[tuple[str, str], ProgramRow] = _read()
"""(system, package) -> its row."""


def named(library: str) -> tuple[str, str]:
    """The package and the version, "" for none, of a name as in `npm:@scope/name@5.0`."""
    match = re.fullmatch(r"(\w+:@?[^@]+)(?:@(.*))?", library)
    if match is None:
        raise UsageError(
            f"invalid library {library!r}: expected npm:PACKAGE@VERSION or deb:PACKAGE"
        )
    return match[1], match[2] or ""


def pinned(package: str, row: ProgramRow, wanted: str) -> str:
    """The exact version for a version or its beginning, as in 5 or 5.0; the default for ""."""
    known = (row.version, *row.others)
    for version in known:
        if wanted in ("", version) or version.startswith(f"{wanted}."):
            return version
    if re.fullmatch(r"\d+\.\d+\.\d+\S*", wanted):
        return wanted
    raise UsageError(
        f"invalid version {wanted!r} of {package}: expected a whole version, or the beginning of"
        f" {' or '.join(known)}"
    )
