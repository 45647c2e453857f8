"""The library of a hunt: its systems, its releases and the ways in which it can be used."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.catalogue import user_system
from holdfast.clusters.libraries.rows import LIBRARIES, LibraryRow
from holdfast.clusters.programs import npm
from holdfast.clusters.programs.rows import PROGRAMS, ProgramRow, named, pinned
from holdfast.clusters.programs.system import is_program
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import System
from holdfast.harness.plans.plan import OWN, suggest
from holdfast.hunting import releases
from holdfast.hunting.situations import COROUTINES, PYTHON, TRY, Situation

LONGEST_OWN_WAIT_MS = "12000"
"""Longer than the wait that `with` has by itself in the libraries whose `with` takes none."""
WITH = ("way", "with")
UNRELEASED = "as it is"
"""The only release of a lock of the user."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One way of using the library: a system's servers, and options that differ from the default.

    api     the interface in use, as the library's row names it
    elects  a candidate cannot withdraw, as in the library's row
    bound   what ends a hold besides a release, as in the library's row
    tokens  place of its fencing tokens in the library's row, the last one being those that need
            least of the client; 0: none
    """

    system: str
    api: str = ""
    bound: str = "lease"
    elects: bool = False
    tokens: int = 0
    options: Mapping[str, str]

    @property
    def words(self) -> str:
        """As text: "api=asyncio expire=none"."""
        return " ".join(f"{name}={value}" for name, value in self.options.items())

    def given(self) -> dict[str, str]:
        """Options for a plan."""
        waits = {"wait_ms": LONGEST_OWN_WAIT_MS} if WITH in self.options.items() else {}
        return {**waits, **self.options}

    def suits(self, situation: Situation, *, python: bool) -> bool:
        """Whether the situation makes sense with this interface."""
        able = {COROUTINES} if self.api == "asyncio" else set[str]()
        able |= {PYTHON} if python else set()
        able |= set() if self.elects else {TRY}
        return able.issuperset(situation.needs)


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A library under test.

    package    its name as in `--library`: redis, npm:redlock
    releases   those of the hunt, newest first; release: the one under test; asked: by the user
    fallback   the release that the adapter was written for
    """

    package: str
    release: str
    asked: bool
    fallback: str
    releases: Sequence[str]
    variants: Sequence[Variant]

    @property
    def python(self) -> bool:
        """Whether it is a Python library, which runs in the client's own process."""
        if self.own:
            return ".toml" not in self.package
        return not is_program(self.package)

    @property
    def own(self) -> bool:
        """Whether it is a lock of the user, which has no releases."""
        return OWN.fullmatch(self.package) is not None

    def options(self, release: str) -> dict[str, str]:
        """The options that choose a release."""
        return {} if self.own else {"library": self.library(release)}

    def library(self, release: str) -> str:
        """A release as the option `library` names it; the lock of the user by its name."""
        if self.own:
            return self.package
        return f"{self.package}{'==' if self.python else '@'}{release}"


def known() -> list[str]:
    """Names of the packages that can be hunted."""
    return sorted({*LIBRARIES, *(package for _, package in PROGRAMS)})


def _without_adapter(package: str) -> str:
    """How to hunt a package for which there is no adapter."""
    if is_program(package):
        return (
            f"without an adapter: write a client program around it, and a table with"
            f' client = "node client.mjs" and libraries = ["{package}"]; then holdfast hunt'
            f" mylock.toml (docs/tutorial/own-lock.md)"
        )
    return (
        f"without an adapter: holdfast new lock mylock.py, with libraries ="
        f' ("{package}",); then holdfast hunt mylock.py:MyLock (docs/howto/own-lock.md)'
    )


def read(
    text: str,
    system: str | None,
    count: int,
    published: Callable[[str], Sequence[str]] | None = None,
) -> Subject:
    """The library of a name, as in redis, redis==8.1.0 or npm:redlock@5, or a lock of the user:
    mylock.py:MyLock, mylock.toml. UsageError.

    system      only this one of its systems; count: number of releases
    published   lists the releases of a package, newest first; None: its package manager
    """
    if OWN.fullmatch(text):
        return _own(text, system)
    package, wanted = named(text) if is_program(text) else _python(text)
    if package not in known():
        raise UsageError(suggest(package, known(), "package"), _without_adapter(package))
    rows: dict[str, LibraryRow | ProgramRow] = {
        place: row for (place, name), row in PROGRAMS.items() if name == package
    }
    if package in LIBRARIES:
        rows[LIBRARIES[package].system] = LIBRARIES[package]
    if system is not None and system not in rows:
        raise UsageError(f"--system {system}: {package} uses the servers of {', '.join(rows)}")
    rows = {place: row for place, row in rows.items() if system in (None, place)}
    row = next(iter(rows.values()))
    if isinstance(row, ProgramRow) and wanted:
        wanted = pinned(package, row, wanted)
    listed = list((published or releases.published)(package))
    if wanted and listed and wanted not in listed:
        raise UsageError(f"{package} has no release {wanted}; newest: {', '.join(listed[:5])}")
    chosen = releases.last(listed, row.version, wanted, count)
    return Subject(
        package=package,
        release=wanted or chosen[0],
        asked=bool(wanted),
        fallback=row.version,
        releases=chosen,
        variants=[one for place in rows for one in _variants(place, rows[place])],
    )


def _own(text: str, servers: str | None) -> Subject:
    """A lock of the user. servers: the built-in system whose servers it uses, None: its own."""
    name = text if servers is None else f"{text}@{servers}"
    made: System = load(user_system.row(name).entry)
    bound = made.promises({}).bound
    return Subject(
        package=name,
        release=UNRELEASED,
        asked=True,
        fallback=UNRELEASED,
        releases=(UNRELEASED,),
        variants=[Variant(system=name, bound=bound, options={})],
    )


def _python(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"([A-Za-z0-9._-]+)(?:==([^=]+))?", text)
    if match is None or (match[2] and not releases.VERSION.fullmatch(match[2])):
        raise UsageError(
            f"invalid package {text!r}: expected PACKAGE, PACKAGE==VERSION or"
            f" {npm.PREFIX}PACKAGE@VERSION"
        )
    return match[1], match[2] or ""


def _variants(system: str, row: LibraryRow | ProgramRow) -> list[Variant]:
    """All combinations of the ways to use it, those nearest to the default first."""
    if isinstance(row, LibraryRow):
        axes = {"api": tuple(row.adapters), "way": row.ways, "expire": row.leases}
    else:
        axes = {"api": row.hunted, "tokens": row.tokens}
    axes["renew"] = row.renewals
    elects = isinstance(row, LibraryRow) and row.elects
    variants = []
    for values in itertools.product(*axes.values()):
        pairs = dict(zip(axes, values, strict=True))
        apart = {name: value for name, value in pairs.items() if value != axes[name][0]}
        tokens = axes["tokens"].index(pairs["tokens"]) if "tokens" in axes else 0
        variants.append(
            Variant(
                system=system,
                api=pairs["api"],
                bound=row.bound,
                elects=elects,
                tokens=tokens,
                options=apart,
            )
        )
    return sorted(variants, key=lambda variant: len(variant.options))
