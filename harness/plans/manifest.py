"""The manifest of a run: everything decided before the run, as one typed value.

`parsed` is the only reader of its JSON and `to_table` the only writer. Dataclasses, because the
simulator holds a manifest on interpreters that have the standard library only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TypeVar

from holdfast.harness.core.clock import LARGEST
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import BEFORE, Traits
from holdfast.harness.core.fault_traits import to_table as traits_table
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.verdict import Promises, Severity
from holdfast.harness.plans.plan import Plan

T = TypeVar("T")
MOST = {"nodes": 1000, "clients": 100_000, "locks": 1_000_000, "drift_ppm": 1_000_000}
"""Upper bounds of counts in a manifest; a larger count would make a loop endless."""
DISK = "disk_mib"
"""Option of a backend: MiB of the disk that each server has of its own."""
ADDED_LATER = {"nemeses", "must", "checkers", "require", "scenario", "server_record"}
"""Fields of a plan that the first versions did not record; a run without them is still judged."""
_MISSING = re.compile(r"Object missing required field `(\w+)`(?: - at `\$\.?([^`]*)`)?")
_WRONG = re.compile(r"(.*) - at `(?:key in )?\$\.?([^`]*)`", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedChecker:
    """What a run records of a checker of the user: its name in the plan, the property it judges."""

    name: str
    severity: Severity
    says: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The options of a run, sorted by the part that reads them; values as given, as text."""

    system: Mapping[str, str]
    workload: Mapping[str, str]
    backend: Mapping[str, str] = field(default_factory=dict)
    resource: Mapping[str, str] = field(default_factory=dict)

    @property
    def disk_bytes(self) -> int:
        """Size of the disk that each server has of its own; 0: none."""
        return int(self.backend.get(DISK, "0")) << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Entries:
    """What the processes of a run load, "module:attr" each, or a module to execute.

    server_command  what starts a server in place of the system's own command; "" for that command
    simulated       coroutine of a simulated server; "" for a system without simulated servers
    resource_port   TCP port of the protected resource
    nemeses         kind of fault -> its nemesis
    """

    system: str = ""
    backend: str = ""
    workload: str = ""
    probe: str = ""
    resource_main: str = ""
    simulated: str = ""
    server_command: str = ""
    resource_store: str = ""
    resource_server: str = ""
    resource_client: str = ""
    resource_port: int = 0
    nemeses: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a run comes from.

    name   given by the user with --name, "" for none
    of     name of the run that it is an attempt of, or what attempts without one have in common;
           "" for a run of its own
    by     the command that made it: shrink, replay, hunt, sweep
    """

    name: str = ""
    of: str = ""
    by: str = ""


OWN = Origin()
"""A run of its own, without a name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Fields with a default are not needed to judge a run; older versions wrote fewer of them.

    run, label        name of the run; mark of all its containers, networks and processes
    version, python   of Holdfast and of the interpreter that wrote it
    command           command line that repeats the run
    plan              the complete plan, every fault exact
    identity          name of the system under test with a hash of the user's code, "" if built in
    promises          what the system promises, by which the run is judged
    asks              property ids to judge
    checkers          property id -> the user's checker that judges it
    plug_ins          "kind name" -> distribution and version of an installed plug-in
    traits            kind of fault -> what it does; before they were recorded: those of that time
    ready_ns          longest time until all processes are ready
    longest_hold_ns   longest time that a client intends to hold a lock
    peers             whether the servers communicate with each other
    pins, libraries   pinned packages of the client; folders into which they were fetched
    site              import folders of Holdfast's environment, for a user's file that needs them
    hosts             content of the hosts file, {} if all nodes are on this machine
    origin            its name, and the run that it is an attempt of
    """

    schema: str
    run: str
    label: str = ""
    version: str = ""
    python: str = ""
    command: str
    plan: Plan
    identity: str = ""
    promises: Promises
    asks: Sequence[str]
    checkers: Mapping[str, RecordedChecker] = field(default_factory=dict)
    plug_ins: Mapping[str, str] = field(default_factory=dict)
    options: Options
    traits: Mapping[str, Traits] = field(default_factory=lambda: BEFORE)
    ready_ns: int = 0
    longest_hold_ns: int = 0
    peers: bool = True
    pins: Sequence[str] = ()
    libraries: Sequence[str] = ()
    site: Sequence[str] = ()
    entries: Entries = field(default_factory=Entries)
    hosts: Mapping[str, Json] = field(default_factory=dict)
    origin: Origin = OWN


def to_table(manifest: Manifest) -> dict[str, Json]:
    """The manifest as JSON-ready values, in the order of its fields."""
    # By way of JSON, which has lists and no tuples: what is shown is what is in the file.
    table: dict[str, Json] = json.loads(json.dumps(asdict(manifest)))
    # Of the traits only those that differ from the defaults; of nothing no key.
    table["traits"] = {kind: traits_table(traits) for kind, traits in manifest.traits.items()}
    for name in ("hosts", "site"):
        if not table[name]:
            del table[name]
    if manifest.origin == OWN:
        del table["origin"]
    return table


def parsed(table: Mapping[str, Json]) -> Manifest:
    """The manifest out of its JSON object; UsageError with one line per mistake."""
    plan = table.get("plan")
    if isinstance(plan, dict):
        # `Plan` has defaults for a user's file; a recorded plan is complete.
        names = (one.name for one in fields(Plan) if one.name not in ADDED_LATER)
        lacking = [f"damaged: '{name}' is missing" for name in names if name not in plan]
        if lacking:
            raise UsageError(*lacking)
    manifest = converted(table, Manifest)
    promised = table["promises"]
    known = {one.name for one in fields(Promises)}
    assert isinstance(promised, dict)
    problems = [f"unknown promise {str(name)[:40]!r}" for name in promised.keys() - known]
    problems += [*_out_of_range(manifest.plan), *_out_of_range(manifest, least=0)]
    problems += _out_of_range(manifest.promises, least=-LARGEST)
    if problems:
        raise UsageError(*problems)
    return manifest


def converted(table: Mapping[str, Json], kind: type[T]) -> T:
    """A JSON object as a value of a type; UsageError names the key with a wrong type or without a
    value."""
    # The simulator gets its manifest as a value, on interpreters that may not have msgspec.
    import msgspec

    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        missing, wrong = _MISSING.match(str(error)), _WRONG.fullmatch(str(error))
        if missing:
            raise UsageError(f"damaged: '{missing[1]}' is missing") from error
        where, what = (wrong[2], wrong[1]) if wrong else ("", str(error))
        raise UsageError(f"{_with_key(table, where, kind)}: {what}") from error


def _with_key(table: Mapping[str, Json], where: str, kind: type[T]) -> str:
    """The path of a wrong value with the key of its row: msgspec names none, "checkers[...]"."""
    import msgspec

    name, several, rest = where.partition("[...]")
    rows = table.get(name)
    if several and isinstance(rows, dict):
        for key, row in rows.items():
            try:
                msgspec.convert({**table, name: {key: row}}, kind)
            except msgspec.ValidationError:
                return f"{name}.{key}{rest}"
    return where


def _out_of_range(value: Plan | Promises | Manifest, least: int = 0) -> list[str]:
    """The integers of a value that no run has; a loop over such a number would not end."""
    found = []
    for one in fields(value):
        number, most = getattr(value, one.name), MOST.get(one.name, LARGEST)
        if type(number) is int and one.name != "seed" and not max(least, -most) <= number <= most:
            low = max(least, -most)
            found.append(f"invalid {one.name} {str(number)[:40]}: expected {low} to {most}")
    return found
