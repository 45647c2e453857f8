"""The driver process of a run: started, followed, interrupted, and cleaned up after."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import click

from holdfast import catalogue, interrupts
from holdfast.clusters.backends import leftovers
from holdfast.clusters.backends.leftovers import Source
from holdfast.engine.lenses import beside
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Prechecked
from holdfast.harness.driver.run import END_WORKLOAD
from holdfast.harness.judging.lens import Watch
from holdfast.harness.plans.manifest import Manifest
from holdfast.harness.recording import full_disk
from holdfast.harness.runs.directory import RunDir
from holdfast.planning import capacity
from holdfast.reports.text.formatting import count

LAST_WORDS = 12
NOBODY = Watch()
Show = Callable[[Mapping[str, Json]], None]


def precheck(manifest: Manifest) -> None:
    """EnvironmentFailed with the reason, if this machine cannot execute the run."""
    backend = catalogue.BACKENDS[manifest.plan.backend]
    reason = load(backend.precheck)()
    starts = not manifest.entries.server_command
    if reason is None and backend.programs_here and starts:
        system = load(manifest.entries.system)
        reason = system.precheck() if isinstance(system, Prechecked) else None
    if reason is None and manifest.options.disk_bytes:
        reason = load(backend.disks)()
    if reason is None:
        reason = capacity.too_large(manifest.plan)
    if reason is not None:
        raise EnvironmentFailed(reason)


def execute(run: RunDir, show: Show, watch: Watch = NOBODY) -> None:
    """Execute a run in its own process; EnvironmentFailed if it could not be executed.

    KeyboardInterrupt is forwarded to that process, which heals and tears down before it exits.

    watch   whom lenses tell what they see
    """
    manifest = run.read_manifest()
    precheck(manifest)
    row = catalogue.BACKENDS[manifest.plan.backend]
    if row.virtual_time:
        _simulate(run, manifest, show, watch)
        return
    _sweep()
    own_disks = {"disks": True} if manifest.options.disk_bytes else {}
    prefix = load(row.prefix)(**own_disks) if row.prefix else []
    argv = [*prefix, sys.executable, "-P", "-m", "holdfast.harness.driver.process", str(run.path)]
    log = run.log("driver", "driver")
    failed: dict[str, Json] = {}
    with (
        log.open("ab") as errors,
        subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            env=_environment(run),
        ) as process,
        _passing_on_interrupts(process) as asked,
        beside(run, manifest, replace(watch, end_workload=partial(_end_workload, process))),
    ):
        assert process.stdout is not None
        for line in process.stdout:
            row = json.loads(line)
            if row["stage"] == "failed":
                failed = row
            else:
                show(row)
        code = process.wait()
        if code not in (0, 130):
            _clean_up(manifest.label)
    if code == 130 or asked.is_set():
        raise KeyboardInterrupt(
            f"interrupted: the run is in {run.path}; judge its recorded rows with"
            f" `holdfast check {run.path}`"
        )
    if failed:
        raise EnvironmentFailed(f"{failed['error']}\nrun directory: {run.path}")
    if code != 0:
        raise EnvironmentFailed(f"the driver exited with code {code}: {_last_output(run)}")


def _simulate(run: RunDir, manifest: Manifest, show: Show, watch: Watch) -> None:
    only_plan = (
        f"interrupted: a simulated run is recorded at its end, so {run.path} has its plan only;"
        f" the same run again: {manifest.command}"
    )
    with interrupts.saying(only_plan), beside(run, manifest, watch):
        load(manifest.entries.backend)(manifest, show).keep(run)


def _end_workload(process: subprocess.Popen[str]) -> None:
    """Has the driver end the workload, as if its time were over."""
    if process.stdin is not None:
        with suppress(OSError, ValueError):  # It may be ending already.
            process.stdin.write(f"{END_WORKLOAD}\n")
            process.stdin.flush()


def _environment(run: RunDir) -> dict[str, str]:
    """Our environment, with the folder of the user's own file on PYTHONPATH, if there is one, and
    the packages that it imports.

    An empty part of PYTHONPATH (`PYTHONPATH=$PYTHONPATH:/lib`) is the current folder to Python.
    """
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if run.own.is_dir():
        paths = [str(run.own), *paths, *run.read_manifest().libraries]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _sources() -> list[Source]:
    return [load(entry) for entry in catalogue.LEFTOVERS]


def _sweep() -> None:
    """Removes what earlier runs left that were killed together with their command."""
    removed, problems = leftovers.sweep(_sources())
    if removed:
        runs = ", ".join(dict.fromkeys(one.label for one in removed))
        click.echo(
            f"note: removed {count(len(removed), 'leftover')} of killed runs: {runs}", err=True
        )
    for problem in problems:
        click.echo(
            f"note: left of a killed run: {problem}; remove it with holdfast doctor --clean",
            err=True,
        )


def _clean_up(label: str) -> None:
    """Removes the leftovers of a driver that was killed or failed."""
    for problem in leftovers.clean_run(label, _sources()):
        click.echo(
            f"holdfast: not cleaned up: {problem}; remove it with holdfast doctor --clean", err=True
        )


@contextmanager
def _passing_on_interrupts(process: subprocess.Popen[str]) -> Iterator[threading.Event]:
    """^C and SIGTERM make the run heal and exit, which takes a moment; a second one changes
    nothing. Yields an event that the first one sets.

    Only the main thread receives signals; a run in another thread ends with the process.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: object) -> None:
        asked.set()
        process.send_signal(signal.SIGINT)
        # The end of its input also stops a driver that ignores the signal: before it has a handler,
        # it inherits the disposition of this process, which may be a Python program of the user.
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_output(run: RunDir) -> str:
    log = run.log("driver", "driver")
    lines = log.read_text(errors="replace").strip().splitlines()[-LAST_WORDS:]
    silence = full_disk.REASON if full_disk.has_little(run.path) else "no output"
    last = lines[-1] if lines else silence
    return f"{last}{full_disk.next_step(last)} (see {log})"
