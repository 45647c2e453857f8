"""Driver side of a library under test: the servers of a system, used through the library.

`holdfast.clusters.libraries.system:SYSTEM/PACKAGE==VERSION/API` is such a System; API may be empty.

Promises: those of the servers' own system while the servers run, also under faults of clients
Does not promise: anything after the lease that the library was given
Tested with: the versions in `rows.py`, and those of the findings
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.clusters.libraries import environments
from holdfast.clusters.libraries.on_servers import WithoutClient
from holdfast.clusters.libraries.rows import LIBRARIES, SERVERS
from holdfast.clusters.systems.options import choose
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import CLIENT_SIDE, CRASHES, CUTS, STOPS
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Confined, System
from holdfast.harness.core.verdict import Promises

KEPT = (CUTS, STOPS, CLIENT_SIDE)
REACHED = (CUTS, STOPS, CRASHES, CLIENT_SIDE)
OPTIONS = {
    "way": ("call", "with"),
    "expire": ("lease", "none", "zero"),
    "renew": ("call", "library"),
}
"""How the lock is entered; its lease: none, zero or as given; who renews. `api`, the interface or
the kind of lock, has values of the package's own."""


def entry(system: str, options: Mapping[str, str]) -> str:
    """The name under which this System is loaded. UsageError for an unknown library."""
    pin, api = options["library"], options.get("api", "")
    package, _, version = pin.partition("==")
    known = [name for name, row in LIBRARIES.items() if row.system == system]
    if package not in known:
        suits = ", ".join(known) or "none"
        raise UsageError(f"{system}: no adapter for library {package!r} (available: {suits})")
    row = LIBRARIES[package]
    if api not in ("", *row.apis):
        raise UsageError(f"{package}: invalid api={api}: expected one of {', '.join(row.apis)}")
    return f"{__name__}:{system}/{package}=={version or row.version}/{api}"


class LibrarySystem(WithoutClient):
    """A System: that of the servers, except for the client."""

    def __init__(self, name: str) -> None:
        self._system, pin, api = name.split("/")
        self._package = pin.partition("==")[0]
        self._row = LIBRARIES[self._package].of(api)
        self._servers: System = load(SERVERS[self._row.system])
        (adapter,) = self._row.adapters.values()
        self._adapter = f"holdfast.clusters.libraries.adapters.{adapter}"
        self.client = f"holdfast.clusters.libraries.client:{adapter}"
        served = self._servers.libraries if self._row.served else ()
        self.libraries: Sequence[str] = (pin, *self._row.pins, *served)
        self.built: Sequence[str] = self._row.built
        self.ports: Sequence[int] = self._servers.ports
        if isinstance(self._servers, Confined):
            self.backends: Sequence[str] = self._servers.backends
            self.confined_because: str = self._servers.confined_because

    def unusable(self, folder: Path) -> str:
        """Why the adapter does not work with the packages of a folder, "" if it does."""
        why = environments.unusable(folder, self._adapter)
        return why and (
            f"{self.libraries[0]}: the adapter does not work with this version: {why}; it was"
            f" written for {LIBRARIES[self._package].version}: use that version or one near it"
        )

    def abilities(self, options: Mapping[str, str]) -> Sequence[str]:
        """Those of the package's lock: whatever the servers can, only it can be asked for."""
        return self._row.abilities

    def promises(self, options: Mapping[str, str]) -> Promises:
        """The promises of the servers that the library can keep. Raises UsageError."""
        mine = {name: value for name, value in options.items() if name in OPTIONS}
        chosen = choose(self._package, mine, OPTIONS)
        self._refuse(chosen)
        notified = {"loss-notice": REACHED} if self._row.tells else {}
        # A leader cannot step down: after a release of ours its lease has to expire.
        freed = {} if self._row.elects else {"deadlock-freedom": REACHED}
        unsafe = (*self._row.unsafe, *((STOPS,) if self._row.elects else ()))
        kept = tuple(kind for kind in KEPT if kind not in unsafe)
        base = self._servers.promises(self._rest(options))
        renew, release = self._row.proves
        by_call = chosen["way"] == "call"
        bound = "none" if self._endless(chosen) else self._row.bound
        # Its servers end a hold that it no longer renews.
        lapses = (bound, base.bound, chosen["expire"]) == ("none", "lease", "lease")
        return replace(
            base,
            bound=bound,
            lapse_ns=0 if lapses else -1,
            renew_proves=renew,
            release_proves=release and by_call,
            release_once=release and by_call,
            tokens="none",
            tokens_unique=False,
            order="racing",
            keeps={
                "mutual-exclusion": kept,
                "ownership": kept,
                **freed,
                "orphan-freedom": REACHED,
                "no-hung-request": ("any",),
                **notified,
            },
            sheet={
                "acquisition": f"{self.libraries[0]}, unmodified, by "
                + ("acquire()" if by_call else "its context manager"),
                "lease": "as configured in the library" if chosen["expire"] == "lease" else "none",
                "renewal": "the library's own",
                "token enforcement": "none",
                "retry": "the library's default",
                "evidence": ", ".join(self.libraries)
                + (f"; {self._row.source}" if self._row.source else ""),
            },
        )

    def _refuse(self, chosen: Mapping[str, str]) -> None:
        """UsageError for a use that the adapter replaces by another: its promises would be those of
        a lock that was not tested."""
        row = self._row
        uses = {"way": row.ways, "expire": row.leases, "renew": row.renewals}
        wrong = [
            f"{self._package}: invalid {option}={chosen[option]}: its adapter supports"
            f" {', '.join(known)}"
            for option, known in uses.items()
            if chosen[option] not in known
        ]
        if wrong:
            raise UsageError(*wrong)

    def _endless(self, chosen: Mapping[str, str]) -> bool:
        """Whether the library lets its user assume that only a release ends a hold."""
        return chosen["expire"] != "lease" or chosen["renew"] == "library"

    def _rest(self, options: Mapping[str, str]) -> dict[str, str]:
        mine = (*OPTIONS, "api", "library")
        return self._row.asks | {k: v for k, v in options.items() if k not in mine}


def __getattr__(name: str) -> LibrarySystem:
    """The System of SYSTEM/PIN/API."""
    if "/" not in name:
        raise AttributeError(name)
    return LibrarySystem(name)
