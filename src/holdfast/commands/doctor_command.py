"""`holdfast doctor`: what this machine can run and why not; what an aborted run left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

import holdfast
from holdfast import __version__, catalogue
from holdfast.clusters.libraries import environments
from holdfast.clusters.libraries.rows import LIBRARIES
from holdfast.clusters.libraries.system import entry
from holdfast.clusters.systems.program.table import problems
from holdfast.engine import client_conformance
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load

AGENT_WITHIN_S = 10
Row = tuple[str, str, str | None]
"""What was looked at, what it is for, and why it is not there (None: it is)."""


@click.command(short_help="What this machine can run and why not; --clean removes leftovers.")
@click.option("--clean", is_flag=True, help="Remove what aborted runs left: never a living run's.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--client", help="Try a line-protocol client instead: './client {servers}'.")
@click.option("--servers", default="127.0.0.1", help="What {servers} stands for in --client.")
def command(clean: bool, as_json: bool, client: str | None, servers: str) -> int:
    """Looks at backends, faults, servers, libraries and leftovers. Changes nothing without --clean.

    With --client it starts that program, asks it for a lock, and says what it does wrong.
    """
    if client is not None:
        return _try_client(client, servers, as_json)
    rows = [*_backends(), *_faults(), *_systems(), *_libraries()]
    left = _leftovers()
    unremoved = [_removed(item) if clean else "" for item in left]
    told = [f"{item.kind} {item.text} of run {item.label}" for item in left]
    code = 4 if any(unremoved) else 0
    if as_json:
        table = [{"what": what, "for": use, "missing": why} for what, use, why in rows]
        found = {"version": __version__, "checks": table, "leftovers": told}
        click.echo(json.dumps({**found, "cleaned": clean and not code}))
        return code
    click.echo(f"holdfast {__version__}, Python {sys.version.split()[0]}, user {os.geteuid()}")
    for what, use, why in rows:
        click.echo(f"  {'yes' if why is None else 'no ':<4}{what:<33}{use if why is None else why}")
    if not left:
        click.echo("leftovers of aborted runs: none")
    for item, problem in zip(told, unremoved, strict=True):
        word = "left" if problem or not clean else "removed"
        click.echo(f"  {word}: {item}{f' ({problem})' if problem else ''}")
    if left and not clean:
        click.echo(f"{len(left)} leftovers; remove them with: holdfast doctor --clean")
    return code


def _try_client(client: str, servers: str, as_json: bool) -> int:
    """Say what a client program does wrong; 1 if it does anything wrong."""
    wrong = problems({"client": client})
    if wrong:
        raise UsageError(*(f"--client: {line.removeprefix('client ')}" for line in wrong))
    faults = client_conformance.tried(client, servers)
    if as_json:
        click.echo(json.dumps({"client": client, "faults": faults}))
    else:
        for fault in faults:
            click.echo(f"  wrong: {fault}")
        told = f"{len(faults)} faults" if faults else "it speaks the line protocol"
        click.echo(f"{client}: {told}")
    return 1 if faults else 0


def _backends() -> Iterator[Row]:
    for name, row in catalogue.BACKENDS.items():
        yield f"backend {name}", row.says, load(row.precheck)()


def _faults() -> Iterator[Row]:
    """Ask a fault agent, started as the local backend would start it, what it can do here."""
    prefix: Sequence[str] = ()
    row = catalogue.BACKENDS["local"]
    if load(row.precheck)() is None:
        prefix = load(row.prefix)()
    argv = [*prefix, sys.executable, "-S", "-P", "-m", "holdfast.nemesis.agent"]
    env = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}
    try:
        done = subprocess.run(
            argv,
            input='{"id": 1, "do": "hello"}\n',
            capture_output=True,
            text=True,
            env=env,
            timeout=AGENT_WITHIN_S,
        )
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[0])["evidence"]
    except (OSError, ValueError, LookupError, subprocess.TimeoutExpired) as error:
        yield "fault agent", "", f"it does not answer: {error!r}"
        return
    for name in ("cut", "pause", "kill", "set_clock"):
        can = told[name]
        yield f"fault {name}", "the fault agent can do it here", None if can is True else str(can)


def _systems() -> Iterator[Row]:
    for name, row in catalogue.SYSTEMS.items():
        look = getattr(load(row.entry), "precheck", None)
        yield f"system {name}", row.says, look() if look is not None else None


def _libraries() -> Iterator[Row]:
    """The folders of the libraries that systems lock with by themselves, then of the subjects."""
    for name, row in catalogue.SYSTEMS.items():
        pins = load(row.entry).libraries
        if pins:
            yield f"library {pins[0]}", f"system {name} locks with it", environments.problem(pins)
    for name, subject in LIBRARIES.items():
        made = load(entry(subject.system, {"library": name}))
        use = f"--system {subject.system} --library {made.libraries[0]}"
        yield f"library {made.libraries[0]}", use, environments.problem(made.libraries)


def _leftovers() -> list[Any]:
    from holdfast.clusters.backends import leftovers

    return list(leftovers.find())


def _removed(item: Any) -> str:
    """Why a leftover could not be removed, "" if it was."""
    from holdfast.clusters.backends import leftovers

    try:
        leftovers.clean(item)
    except Exception as error:
        return str(error) or type(error).__name__
    return ""
