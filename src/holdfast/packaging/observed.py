"""What a run shows of a finding that decides on the script for it.

The library and how it was used, the property, the faults that took effect, the call that was
cancelled.

A run directory may come from elsewhere, and what is made of it is executed: packages are those of
the library's own row, and names become literals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.catalogue import SYSTEMS as KNOWN
from holdfast.clusters.libraries.rows import LIBRARIES
from holdfast.clusters.libraries.system import OPTIONS, entry
from holdfast.clusters.programs import debian, npm
from holdfast.clusters.programs.rows import PROGRAMS, named, pinned
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import CANCELLED, Op, Status
from holdfast.harness.history import reader
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Judged, Judgement, Shown
from holdfast.packaging.scripts import Filled
from holdfast.packaging.shapes import CALLS, IMPOSSIBLE, SHAPES, SYSTEMS, ScriptShape

PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+")
NPM_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]*")
LEASES = {"none": "None", "zero": "0"}
SYSTEM = "system:"
ACQUIRES = ("acquire", "try")
GONE = "gone"
"""State of a process that a fault ended, in its evidence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    """The library of a run.

    name, version  as in `Filled.library`
    package        name and version, as a maintainer writes them
    pins           all packages that it imports, its own first; built: those that pip builds
    api            the interface that was used, "" for programs
    """

    name: str
    version: str
    package: str
    pins: Sequence[str]
    built: Sequence[str] = ()
    api: str = ""

    def of(self, version: str) -> Library:
        """The same library in another version."""
        mark = "@" if self.name.startswith(npm.PREFIX) else "=="
        own = f"{self.name.removeprefix(npm.PREFIX)}{mark}{version}"
        return Library(
            name=self.name, version=version, package=own, pins=(own, *self.pins[1:]),
            built=self.built, api=self.api,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A finding and a shape that suits it."""

    name: str
    shape: ScriptShape
    finding: Shown
    judgement: Judgement
    filled: Filled


def library_of(manifest: Manifest) -> Library:
    """The library under test; UsageError if there is none, or it is no package and version."""
    plan = manifest.plan
    wanted = plan.options.get("library", "")
    if not wanted:
        return _of_system(plan.system, plan.options)
    if wanted.startswith(debian.PREFIX):
        return _of_debian(plan.system, wanted)
    if wanted.startswith(npm.PREFIX):
        name, version = named(wanted)
        row = PROGRAMS.get((plan.system, name))
        if row is None or (version and not NPM_VERSION.fullmatch(version)):
            raise UsageError(f"not packaged: {wanted!r} is no known package and version")
        exact = pinned(name, row, version)
        own = f"{name.removeprefix(npm.PREFIX)}@{exact}"
        return Library(name=name, version=exact, package=own, pins=(own, *row.beside))
    if "==" in wanted and not PIN.fullmatch(wanted):
        raise UsageError(f"not packaged: {wanted!r} is no package and version")
    system = load(entry(plan.system, plan.options))
    name, _, version = system.libraries[0].partition("==")
    api = plan.options.get("api", "") or next(iter(LIBRARIES[name].adapters))
    return Library(
        name=name, version=version, package=system.libraries[0], pins=system.libraries,
        built=system.built, api=api,
    )  # fmt: skip


HAND_ON = "hand on the run directory instead: holdfast replay repeats it"
"""What to do where there is no script."""


def _of_debian(system: str, wanted: str) -> Library:
    """A library of Debian's packages, as it is installed."""
    row = PROGRAMS.get((system, wanted))
    if row is None:
        raise UsageError(f"not packaged: {wanted!r} is no known package")
    (installed,) = debian.versions([wanted.removeprefix(debian.PREFIX)])
    name, _, version = installed.removeprefix(debian.PREFIX).partition("@")
    return Library(name=wanted, version=version, package=f"{name} {version}", pins=())


def _of_system(system: str, options: Mapping[str, str]) -> Library:
    """What a run without a library tests: the library of the system's own client, or the servers.

    UsageError if there are no shapes for the system.
    """
    row = SYSTEMS.get(system)
    if row is None:
        raise UsageError(
            f"not packaged: the run tests the servers of {system} through Holdfast's own client,"
            f" and there is no script template for them; {HAND_ON}"
        )
    release = options.get("version", "installed")
    if row.programs and release != "installed":
        pin = f"{row.programs}=={release}"
        if not PIN.fullmatch(pin):
            raise UsageError(f"not packaged: {release!r} is no release of {row.package}")
        name = f"{SYSTEM}{row.programs}"
        return Library(name=name, version="", package=f"{row.package} {release}", pins=(pin,))
    used = row.library or row.imports
    pins: Sequence[str] = ()
    if used in LIBRARIES:
        pins = (f"{used}=={LIBRARIES[used].version}", *LIBRARIES[used].pins)
    elif used:
        pins = load(KNOWN[system].entry).libraries
    if row.library:
        version = LIBRARIES[used].version
        return Library(name=used, version=version, package=pins[0], pins=pins, api="sync")
    return Library(name=f"{SYSTEM}{system}", version="", package=row.package, pins=pins)


def candidates(run: RunDir, judged: Judged) -> list[Candidate]:
    """The findings with the shapes that suit them, in the order of shapes.

    UsageError if there is none, with the reason.
    """
    manifest = run.read_manifest()
    broken = [one for one in judged.verdicts if one.findings]
    if not broken:
        raise UsageError(f"not packaged: run {judged.run} has no violation")
    library = library_of(manifest)
    plan = manifest.plan
    options = {name: values[0] for name, values in OPTIONS.items()}
    options |= {**plan.options, "api": library.api}
    kinds = _kinds(judged)
    lease = LEASES.get(options["expire"], f"{plan.lease_ns / SECOND:g}")
    suitable = [
        Candidate(
            name=name, shape=shape, finding=finding, judgement=one,
            filled=Filled(
                library=library.name, package=shape.package or library.package, api=library.api,
                lock=finding.lock, lease=lease,
                renewals=_renewals(run, finding) if _both(finding) else 0,
            ),
        )
        for name, shape in SHAPES.items()
        if shape.suits(library.name, options, kinds)
        for one in broken
        # What is not promised under any fault is no bug; under one of the shape's kinds it is a
        # limit, which the issue says.
        if one.property == shape.property and (one.promised or shape.faults)
        for finding in one.findings[:1]
        if not shape.cancelled or shape.cancelled == _cancelled(run, finding)
    ]  # fmt: skip
    if not suitable:
        raise UsageError(_why_not(library, broken, kinds))
    assert all(one.filled.called in CALLS for one in suitable)
    return suitable


def _kinds(judged: Judged) -> frozenset[str]:
    """The kinds of fault that took effect; of those that caught a call of their victims also
    KIND:gone or KIND:held, by its state after it; of held threads the function too: KIND:FUNCTION.
    """
    kinds = set()
    for fault in judged.faults:
        if fault.effective:
            kinds.add(fault.do)
            caught, states = fault.evidence.get("caught"), fault.evidence.get("states")
            if caught and isinstance(states, dict):
                kinds.add(f"{fault.do}:{GONE if GONE in states.values() else 'held'}")
            for one in caught.values() if isinstance(caught, dict) else ():
                if isinstance(one, dict):
                    kinds.add(f"{fault.do}:{str(one.get('function')).rpartition('/')[2]}")
    return frozenset(kinds)


def _why_not(library: Library, broken: Sequence[Judgement], kinds: frozenset[str]) -> str:
    for kind in sorted(kinds & IMPOSSIBLE.keys()):
        why = f"{IMPOSSIBLE[kind]}, and no script template does that otherwise"
        return f"not packaged: {why}; {HAND_ON}"
    properties = ", ".join(one.property for one in broken)
    under = f" under {', '.join(sorted(kinds))}" if kinds else " without faults"
    known = ", ".join(name for name, shape in SHAPES.items() if library.name in shape.libraries)
    return (
        f"not packaged: no script template shows {properties} of {library.package}{under}, used as"
        f" in this run; templates for this library: {known or 'none'}; {HAND_ON}"
    )


def _acquires(finding: Shown) -> Iterator[tuple[int, int]]:
    """(t_ret_ns, attempt) of the grants among the witnesses."""
    for event in finding.witnesses:
        if event.op in ACQUIRES:
            yield event.t_ret_ns, event.attempt


def _both(finding: Shown) -> bool:
    """Whether the grants of two owners are among the witnesses."""
    return len({attempt for _, attempt in _acquires(finding)}) == 2


def _renewals(run: RunDir, finding: Shown) -> int:
    """How often the first owner had renewed before the second one was granted the lock."""
    (_, first), *_, (second_ns, _) = sorted(_acquires(finding))
    rows = reader.load(run.history).history.rows
    mine = (rows["attempt"] == first) & (rows["f"] == int(Op.RENEW))
    return len(rows[mine & (rows["t_inv"] < second_ns) & (rows["status"] == int(Status.OK))])


def _cancelled(run: RunDir, finding: Shown) -> str:
    """The last call before the finding that a fault cancelled: acquire, release, or "" if none."""
    history = reader.load(run.history).history
    rows = history.rows
    texts = [n for n, text in enumerate(history.strings) if text == CANCELLED]
    before = rows[(rows["t_inv"] <= finding.t_ns) & (rows["status"] == int(Status.INFO))]
    mine = before[[int(err) in texts for err in before["err"]]]
    if len(mine) == 0:
        return ""
    return "release" if int(mine[-1]["f"]) == int(Op.RELEASE) else ACQUIRES[0]
