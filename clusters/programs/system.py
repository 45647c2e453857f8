"""Driver side of a published lock in another language: the servers of a system, a client program.

`holdfast.clusters.programs.system:SYSTEM/VERSION/PACKAGE` is such a System.

Promises: those of the servers' own system while the servers run, also under faults of clients
Does not promise: anything after the lease, or after the package's notice of the loss
Tested with: the versions in `programs.toml`
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.clusters.libraries.on_servers import WithoutClient
from holdfast.clusters.libraries.rows import SERVERS
from holdfast.clusters.libraries.system import KEPT, REACHED
from holdfast.clusters.programs import debian, npm
from holdfast.clusters.programs.rows import FOLDER, PROGRAMS, ProgramRow, named, pinned
from holdfast.clusters.systems.options import choose
from holdfast.clusters.systems.program.client import SENDERS
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import System
from holdfast.harness.core.verdict import Promises

TRIAL_S = 60
CHOSEN = ("api", "renew", "tokens", "sender")
OWN_OPTIONS = (*CHOSEN, "library", "argv", "folder", "abilities", "most_permits")


def is_program(library: str) -> bool:
    """Whether a library is one of another language, as in `npm:redlock@5`."""
    return ":" in library


def entry(system: str, options: Mapping[str, str]) -> str:
    """The name under which this System is loaded. UsageError for an unknown package or version."""
    package, wanted = named(options["library"])
    known = [name for place, name in PROGRAMS if place == system]
    if package not in known:
        suits = ", ".join(known) or "none"
        raise UsageError(f"{system}: no client program for {package!r} (available: {suits})")
    row = PROGRAMS[system, package]
    return f"{__name__}:{system}/{pinned(package, row, wanted)}/{package}"


class ProgramLibrary(WithoutClient):
    """A System: that of the servers, except for the client."""

    client = "holdfast.clusters.systems.program.client:client"
    backends: Sequence[str] = ("local", "local-proxy")
    confined_because = "runs a client program, whose interpreter the nodes' image does not have"
    ends_with_client = True
    """A client that exits unexpectedly is a failure of the environment, not of the lock."""

    def __init__(self, name: str) -> None:
        system, version, self.package = name.split("/", 2)
        self._row: ProgramRow = PROGRAMS[system, self.package]
        self._servers: System = load(SERVERS[system])
        prefix, _, self._name = self.package.partition(":")
        self._of_debian = f"{prefix}:" == debian.PREFIX
        self._program = self._row.program_of(version)
        self._renewals = self._row.renewals_of(version)
        self._pins = (f"{self._name}@{version}", *self._row.beside)
        self.libraries: Sequence[str] = tuple(f"{prefix}:{pin}" for pin in self._pins)
        self.ports: Sequence[int] = self._servers.ports

    def promises(self, options: Mapping[str, str]) -> Promises:
        """The promises of the servers that the package can keep. Raises UsageError."""
        row = self._row.of(options.get("api", ""))
        mine = {name: options[name] for name in CHOSEN if name in options}
        known = {"api": row.apis, "renew": self._renewals, "tokens": row.tokens, "sender": SENDERS}
        chosen = choose(self.package, mine, known)
        by_call = chosen["renew"] == "call"
        renew, release = row.proves
        safe = tuple(kind for kind in KEPT if kind not in row.unsafe.get(chosen["renew"], ()))
        base = self._servers.promises(self._rest(options))
        bound = row.bound if by_call else "none"
        # One of several permits that another took is no loss that rows show.
        tells = () if row.abilities == ("permits",) else row.tells.get(chosen["renew"], ())
        return replace(
            base,
            bound=bound,
            # The servers end a hold that the package no longer renews.
            lapse_ns=0 if (bound, base.bound) == ("none", "lease") else -1,
            renew_proves=renew,
            release_proves=release,
            release_once=release,
            tokens="none" if chosen["tokens"] == "none" else "ordered",
            tokens_unique=chosen["tokens"] != "none",
            order="racing",
            keeps={
                "mutual-exclusion": safe,
                "ownership": safe,
                "deadlock-freedom": REACHED,
                "orphan-freedom": REACHED,
                "no-hung-request": ("any",),
                **({"loss-notice": tells} if tells else {}),
            },
            sheet={
                "acquisition": f"{self.libraries[0]}, unmodified"
                + (f", {chosen['api']}" if chosen["api"] else ""),
                "lease": "as configured in the package",
                "renewal": "by the client" if by_call else "by the package itself",
                "token enforcement": {
                    "none": "none",
                    "revision": f"the create revision of the lock's key, {row.token_from}",
                    "czxid": f"the czxid of the lock's node, {row.token_from}",
                    "header": "the revision of the response that granted the lock",
                }[chosen["tokens"]],
                "retry": "the package's default",
                "consequence": f"notice of a loss: {row.notices}" if row.notices else "no notice",
                "evidence": f"{', '.join(self.libraries)}; {row.source}",
            },
        )

    def abilities(self, options: Mapping[str, str]) -> Sequence[str]:
        """Those of the package's lock: whatever the servers can, only it can be asked for."""
        return self._row.of(options.get("api", "")).abilities

    def problem(self) -> str | None:
        """Why the packages cannot be used on this machine; None if they can."""
        if self._of_debian:
            return debian.of(self._program).missing() or debian.problem(self._pins)
        return npm.missing() or npm.problem(self._pins)

    def install(self, tell: Callable[[str], None]) -> tuple[Path, Sequence[str]]:
        """The folder of the packages, fetched on first use, and the versions of all of them.

        UsageError if this machine lacks what runs them, or there is no such version, or the client
        program cannot load it; EnvironmentFailed if they cannot be fetched.
        """
        lacking = debian.of(self._program).missing() if self._of_debian else npm.missing()
        if lacking:
            raise UsageError(f"{self.package}: {lacking}")
        if self._of_debian:
            target = debian.fetch(self._pins, FOLDER / self._program, tell)
            versions = debian.versions(self._pins)
        else:
            target = npm.fetch(self._pins, tell)
            versions = npm.installed(target)
        why = _unusable(self._argv(str(FOLDER / self._program), target))
        if why:
            raise UsageError(
                f"{self.libraries[0]}: the client program does not work with this version: {why};"
                f" it was written for {' and '.join((self._row.version, *self._row.others))}"
            )
        return target, versions

    def ship(self, installed: Path, target: Path, options: Mapping[str, str]) -> dict[str, str]:
        """Options of the client for the workers; copies the client programs to a new folder."""
        row = self._row.of(options.get("api", ""))
        source = (FOLDER / self._program).parent
        target.mkdir()
        for path in sorted(source.iterdir()):
            if path.is_file():
                shutil.copy2(path, target / path.name)
        words = {"api": self._row.apis[0], "renew": self._renewals[0], "tokens": "none"}
        words |= {name: options[name] for name in words if name in options}
        given = [f"{name}={value}" for name, value in words.items()]
        own = self._program if row.program == self._row.program else row.program
        program = self._argv(Path(own).name, installed)
        argv = [*program, "{servers}", "{lease}", *given]
        sender = {name: options[name] for name in ("sender",) if name in options}
        able = {"abilities": json.dumps(row.abilities), "most_permits": str(row.most_permits)}
        return {"argv": json.dumps(argv), "folder": str(target), **able, **sender}

    def _argv(self, program: str, target: Path) -> list[str]:
        if self._of_debian:
            return debian.of(program).started(program, target)
        return npm.argv(program, target, self._name)

    def _rest(self, options: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in options.items() if name not in OWN_OPTIONS}


def _unusable(argv: Sequence[str]) -> str:
    """Why a client program cannot load its packages; "" if it can."""
    done = subprocess.run(
        argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=TRIAL_S, check=False
    )
    lines = [line.strip() for line in done.stderr.splitlines()]
    errors = [line for line in lines if re.match(r"(\w*Error\b|Exception in)", line)]
    return (errors or [f"exit code {done.returncode}"])[0] if done.returncode else ""


def __getattr__(name: str) -> ProgramLibrary:
    """The System of SYSTEM/VERSION/PACKAGE."""
    if "/" not in name:
        raise AttributeError(name)
    return ProgramLibrary(name)
