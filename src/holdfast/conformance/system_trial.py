"""Tests a user's lock before a run: starts its servers here and makes each call once."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import holdfast
from holdfast.catalogue import user_system
from holdfast.clusters.libraries.lock_on_servers import lock_of
from holdfast.clusters.systems.program import command_line
from holdfast.clusters.systems.program.system import ProgramSystem
from holdfast.clusters.systems.user_class.judged import judged
from holdfast.clusters.systems.user_class.system import OwnSystem
from holdfast.conformance import client_conformance
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.harness.core.loading import load, module_of
from holdfast.harness.core.ports import Node, Place, Prechecked, System
from holdfast.harness.plans.plan import OWN, lock_and_servers
from holdfast.harness.runs.directory import RunDir

READY_S = 20.0
SPOKEN = "holdfast.clusters.systems.user_class.line_protocol"


def tried(system: str, servers: str | None) -> list[str]:
    """All mistakes of a user's lock, one sentence each; [] if none was found.

    servers: addresses of running servers; None: the servers that it describes are started here.
    UsageError if it is not a user's lock, or its servers run from an image.
    """
    path = user_system.file_of(system) if OWN.fullmatch(system) else None
    if path is None:
        raise UsageError(
            f"--system {system}: doctor tests only your own lock: FILE.py:CLASS or FILE.toml"
        )
    row = user_system.row(system)
    made: Any = load(row.entry)
    missing = made.precheck() if isinstance(made, Prechecked) and servers is None else None
    if missing:
        raise UsageError(missing)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch, ExitStack() as running:
        folder = Path(scratch)
        paths = [str(Path(holdfast.__file__).parent.parent)]
        paths += user_system.packages_of(system, made).folders
        if path.suffix == ".py":
            module = module_of(path)
            (folder / f"{module}.py").write_bytes(path.read_bytes())
            paths.append(str(folder))
        given = user_system.program_options(system, made, {}, RunDir(folder).program)
        nodes = _nodes(made, row.nodes) if servers is None else []
        environment = {"PYTHONPATH": os.pathsep.join(paths)}
        if servers is not None:
            listed = enumerate(servers.split(","), 1)
            nodes = [Node(name=f"n{n}", role="server", address=address) for n, address in listed]
        elif nodes:
            running.enter_context(_serving(made, nodes, folder, environment))
        lock = lock_of(made)
        able = lock.listed() if isinstance(lock, ProgramSystem | OwnSystem) else ()
        proves = (
            lock.promises({}).release_once if isinstance(lock, ProgramSystem | OwnSystem) else True
        )
        if isinstance(lock, ProgramSystem):
            argv = _program(given, nodes)
            imports = {"PYTHONPATH": given["path"]} if given["path"] else {}
            return client_conformance.tried_argv(argv, imports, abilities=able, proves=proves)
        name = f"{module_of(path)}.{lock_and_servers(system)[0].rpartition(':')[2]}"
        places = ",".join(f"{node.name}={node.address}" for node in nodes)
        argv = (sys.executable, "-S", "-P", "-m", SPOKEN, name, places, json.dumps({}))
        return client_conformance.tried_argv(argv, environment, abilities=able, proves=proves)


def judged_span(system: str) -> str:
    """How far the declarations of a user's lock let a hold be judged."""
    made: System = load(user_system.row(system).entry)
    return judged(made.promises({}))


def _nodes(made: System, most: int) -> list[Node]:
    """The servers to start on loopback addresses: one alone of a service whose servers cannot
    reach each other there. It grants a lock as well."""
    nodes = [
        Node(name=f"n{n}", role="server", address=f"127.0.0.{n}", python=sys.executable)
        for n in range(1, most + 1)
    ]
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch:
        try:
            if most > 1:
                made.command(nodes[0], nodes, _place(Path(scratch)), {})
        except EnvironmentFailed:
            return nodes[:1]
    return nodes


def _place(folder: Path) -> Place:
    return Place(run_id="doctor", run_dir=folder, shared=(), label="doctor")


def _program(given: Mapping[str, str], nodes: Sequence[Node]) -> tuple[str, ...]:
    values = {
        "node": "doctor",
        "servers": ",".join(node.address for node in nodes),
        "seed": "0",
        "lease": "2000",
        "address": "127.0.0.1",
        "index": "0",
        "clients": "doctor=127.0.0.1",
        "python": sys.executable,
    }
    return command_line.filled(json.loads(given["argv"]), values, Path(given["folder"]))


@contextmanager
def _serving(
    made: System, nodes: Sequence[Node], folder: Path, environment: Mapping[str, str]
) -> Iterator[None]:
    """Starts the servers of a lock on loopback addresses. EnvironmentFailed if one of
    them is not ready in time."""
    place = _place(folder)
    started: list[tuple[Node, subprocess.Popen[bytes], Path]] = []
    try:
        for node in nodes:
            command = made.command(node, nodes, place, {})
            if command.image is not None:
                raise UsageError(
                    "its servers run from a container image: start them and pass --servers"
                )
            command.log.parent.mkdir(parents=True, exist_ok=True)
            with command.log.open("wb") as log:
                process = subprocess.Popen(
                    command.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                    env={**os.environ, **environment, **command.env}, start_new_session=True,
                )  # fmt: skip
            started.append((node, process, command.log))
        for node, process, written in started:
            if not asyncio.run(_ready(made, node, process)):
                said = written.read_text(errors="replace").strip().splitlines()[-1:]
                raise EnvironmentFailed(
                    f"its server {node.name} was not ready within {READY_S:g} s:"
                    f" {said[0] if said else 'no output'}"
                )
        yield
    finally:
        for _, process, _ in started:
            process.kill()
            process.wait()


async def _ready(made: System, node: Node, process: subprocess.Popen[bytes]) -> bool:
    over_s = time.monotonic() + READY_S
    while time.monotonic() < over_s and process.poll() is None:
        if await made.ready(node, {}):
            return True
        await asyncio.sleep(0.02)
    return False
