"""`holdfast doctor`: what this machine can run and why not; what an aborted run left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from holdfast import __version__, catalogue, interpreter
from holdfast.clusters.backends import abilities
from holdfast.clusters.libraries import environments
from holdfast.clusters.libraries.rows import LIBRARIES
from holdfast.clusters.libraries.system import entry
from holdfast.clusters.programs import npm
from holdfast.clusters.programs.rows import PROGRAMS
from holdfast.clusters.programs.system import entry as entry_of_program
from holdfast.clusters.systems.program.table import problems
from holdfast.commands.options import Command
from holdfast.conformance import client_conformance, system_trial
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import FromPackages, Installs, Prechecked
from holdfast.reports.text.formatting import count
from holdfast.reports.text.layout import aligned, say, width

if TYPE_CHECKING:
    from holdfast.harness.runs.registry import Leftover

Row = tuple[str, str, str | None]
"""(what was checked, its purpose, why it is missing; None: present)."""
Look = Callable[[], str | None]
SLOWER = (
    "this Python was built without --enable-optimizations: the simulator and the checkers are 10 to"
    " 30 % slower than with a distribution's"
)


@click.command(
    cls=Command,
    examples=(
        "holdfast doctor",
        "holdfast doctor --clean",
        "holdfast doctor --system mylock.py:MyLock",
        "holdfast doctor --client './client {servers}' --servers 127.0.0.1:6379",
    ),
)
@click.option("--clean", is_flag=True, help="Remove what aborted runs left; never a live run's.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--client", metavar="COMMAND", help="Test a line-protocol client instead.")
@click.option("--sends", is_flag=True, help="With --client: test the op send too (sender=program).")
@click.option("--system", metavar="FILE", help="Test a lock of your own: FILE.py:CLASS, FILE.toml.")
@click.option(
    "--servers",
    show_default="127.0.0.1, or started for --system",
    help="Addresses of running servers to test against.",
)
def command(
    clean: bool,
    as_json: bool,
    client: str | None,
    sends: bool,
    system: str | None,
    servers: str | None,
) -> int:
    """Show what this machine can run, what is missing, and what aborted runs left behind.

    Changes nothing without --clean. --client and --system instead test a lock of your own: it is
    started, asked for a lock, and every mistake is listed; exit code 2 if there are any.
    """
    if system is not None and client is not None:
        raise UsageError("--client and --system exclude each other")
    if sends and client is None:
        raise UsageError("--sends needs --client")
    if system is not None:
        return _try_system(system, servers, as_json)
    if client is not None:
        return _try_client(client, servers or "127.0.0.1", as_json, sends)
    rows = [*_backends(), *_faults(), *_systems(), *_libraries()]
    left, unseen = _leftovers()
    unremoved = [_removed(item) if clean else "" for item in left]
    told = [f"{item.kind} {item.text} of run {item.label}" for item in left]
    code = 4 if any(unremoved) else 0
    if as_json:
        table = [{"what": what, "for": use, "missing": why} for what, use, why in rows]
        found = {
            "version": __version__,
            "python": interpreter.build(),
            "checks": table,
            "leftovers": told,
            "unseen": unseen,
        }
        click.echo(json.dumps({**found, "cleaned": clean and not code}))
        return code
    click.echo(f"holdfast {__version__}, {interpreter.build()}, user {os.geteuid()}")
    if not interpreter.optimised():
        say(SLOWER)
    checked = [
        ("no ", what, why) if why is not None else ("yes", what, use) for what, use, why in rows
    ]
    for line in aligned(checked, width(), indent=2):
        click.echo(line)
    if unseen:
        say(f"leftovers of aborted runs: cannot be listed: {unseen}")
    elif not left:
        click.echo("leftovers of aborted runs: none")
    for item, problem in zip(told, unremoved, strict=True):
        word = "left" if problem or not clean else "removed"
        say(f"  {word}: {item}{f' ({problem})' if problem else ''}")
    if left and not clean:
        click.echo(f"{len(left)} leftovers; remove them with: holdfast doctor --clean")
    return code


def _try_client(client: str, servers: str, as_json: bool, sends: bool) -> int:
    """Test a client program and print its faults; 2 if there are any."""
    wrong = problems({"client": client})
    if wrong:
        raise UsageError(*(f"--client: {line.removeprefix('client ')}" for line in wrong))
    faults = client_conformance.tried(client, servers, sends=sends)
    return _told("client", client, faults, "conforms to the line protocol", as_json)


def _try_system(system: str, servers: str | None, as_json: bool) -> int:
    """Test a user's lock and print its faults; 2 if there are any."""
    faults = system_trial.tried(system, servers)
    fine, cost = "a lock was granted, kept and released", system_trial.judged_span(system)
    return _told("system", system, faults, fine, as_json, judged=cost)


def _told(
    what: str, name: str, faults: Sequence[str], fine: str, as_json: bool, *, judged: str = ""
) -> int:
    """Print the faults of what was tried, or that it is fine; 2 if there are any.

    judged: how far its declarations let a hold be judged
    """
    more = {"judged": judged} if judged else {}
    if as_json:
        click.echo(json.dumps({what: name, "faults": faults, **more}))
    else:
        for words in more.values():
            say(f"  judged: {words}")
        for fault in faults:
            say(f"  wrong: {fault}")
        click.echo(f"{name}: {count(len(faults), 'fault') if faults else fine}")
    return UsageError.exit_code if faults else 0


def _backends() -> Iterator[Row]:
    for name, row in catalogue.BACKENDS.items():
        yield f"backend {name}", row.says, _reason(partial(_called, row.precheck))


def _called(name: str) -> str | None:
    said: str | None = load(name)()
    return said


def _faults() -> Iterator[Row]:
    """Abilities of a fault agent, started as the local backend would start it."""
    row = catalogue.BACKENDS["local"]
    prefix = () if _reason(partial(_called, row.precheck)) else load(row.prefix)()
    told = abilities.of_agent(prefix)
    for name in abilities.REQUESTS:
        can = told[name]
        yield f"fault {name}", "supported by the fault agent", None if can is True else str(can)
    yield "fault power", "on disks of the servers' own", _reason(partial(_called, row.disks))


DEPLOYED_BY_USERS = {"cockroachdb": "holdfast.clusters.systems.cockroachdb:unreachable"}
"""System without servers of ours -> the check whether there is one at its default address."""


def _systems() -> Iterator[Row]:
    for name, row in catalogue.SYSTEMS.items():
        reason = _reason(partial(_of_system, row.entry))
        if reason is None and name in DEPLOYED_BY_USERS:
            reason = _reason(partial(_called, DEPLOYED_BY_USERS[name]))
        yield f"system {name}", row.says, reason


def _of_system(entry: str) -> str | None:
    """What a system lacks here: by its own check; else its libraries, which run its servers too."""
    system = load(entry)
    missing = system.precheck() if isinstance(system, Prechecked) else None
    if missing is None and isinstance(system, FromPackages):
        pins = [pin for pin in system.server_pins({}) if pin.startswith(npm.PREFIX)]
        wanted = [pin.removeprefix(npm.PREFIX) for pin in pins]
        missing = (npm.missing() or npm.problem(wanted)) if wanted else None
    return missing or _of_libraries(entry, [])


def _libraries() -> Iterator[Row]:
    """The folders of libraries: those that systems use, then those under test."""
    wanted: list[tuple[str, str, str]] = [
        (name, row.entry, f"used by system {name}") for name, row in catalogue.SYSTEMS.items()
    ]
    for library, subject in LIBRARIES.items():
        use = f"--system {subject.system} --library {{}}"
        wanted.append((library, entry(subject.system, {"library": library}), use))
    for system, package in PROGRAMS:
        use = f"--system {system} --library {{}}"
        wanted.append((package, entry_of_program(system, {"library": package}), use))
    for name, place, use in wanted:
        pins: list[str] = []
        reason = _reason(partial(_of_libraries, place, pins))
        if pins or reason:
            pin = pins[0] if pins else name
            yield f"library {pin}", use.format(pin), reason


def _of_libraries(place: str, pins: list[str]) -> str | None:
    """Why the libraries of a system cannot be used; adds their pins to the list."""
    system = load(place)
    pins.extend(system.libraries)
    if isinstance(system, Installs):
        return system.problem()
    return environments.problem(pins) if pins else None


def _reason(look: Look) -> str | None:
    """What a check reports as missing. If the check itself fails, that is the reason: one broken
    package must not hide the rows of all others."""
    try:
        return look()
    except Exception as error:
        return f"check failed: {type(error).__name__}: {error}"


def _leftovers() -> tuple[list[Leftover], str | None]:
    """Leftovers of aborted runs, and why they could not be listed, if so."""
    found: list[Leftover] = []

    def look() -> None:
        from holdfast.clusters.backends import leftovers

        found.extend(leftovers.find(sources=list(map(load, catalogue.LEFTOVERS))))

    return found, _reason(look)


def _removed(item: Leftover) -> str:
    """Why a leftover could not be removed, "" if it was."""
    from holdfast.clusters.backends import leftovers

    try:
        leftovers.clean(item, list(map(load, catalogue.LEFTOVERS)))
    except Exception as error:
        return str(error) or type(error).__name__
    return ""
