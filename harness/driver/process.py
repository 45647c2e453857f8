"""The process of one run: `python -m holdfast.harness.driver.process RUN_DIR`.

It reads everything it needs from the manifest, writes its records to files in the run directory,
and its progress to standard output, one JSON line at a time. When its standard input closes the run
heals, tears down and exits.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from holdfast.harness.core.errors import HoldfastError, no_space
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import Place
from holdfast.harness.driver.host_runtime import HostRuntime
from holdfast.harness.driver.run import END_WORKLOAD, Run
from holdfast.harness.recording import starvation
from holdfast.harness.runs import signals
from holdfast.harness.runs.directory import RunDir


class _Stop:
    """Stops the work, once: a second ^C must not interrupt the healing."""

    def __init__(self, work: asyncio.Task[None]) -> None:
        self._work = work
        self._asked = False

    def __call__(self) -> None:
        if not self._asked:
            self._asked = True
            self._work.cancel()


async def _until_input_ends(stop: _Stop, end_workload: Callable[[], None]) -> None:
    """Stops the work when the process that started this one has exited; until then, obeys it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        if line.decode(errors="replace").strip() == END_WORKLOAD:
            end_workload()
    stop()


async def _main(started: Callable[[], Run]) -> None:
    runs: list[Run] = []

    async def execute() -> None:
        runs.append(started())
        await runs[0].execute()

    def end_workload() -> None:
        for run in runs:
            run.end_workload()

    work = asyncio.ensure_future(execute())
    stop = _Stop(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    orphaned = asyncio.ensure_future(_until_input_ends(stop, end_workload))
    try:
        await work
    finally:
        orphaned.cancel()


def main(argv: list[str]) -> int:
    """Exit code 0: a complete history; 130: stopped; else that of the error it printed."""
    signals.end_here()
    run = RunDir(Path(argv[1]))
    manifest = run.read_manifest()
    starvation.begin(run.path, "driver")

    def progress(row: Mapping[str, Json]) -> None:
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()

    def started() -> Run:
        place = Place(
            run_id=manifest.run,
            run_dir=run.path,
            shared=(run.code, *map(Path, manifest.libraries)),
            label=manifest.label,
            seed=manifest.plan.seed,
            hosts=manifest.hosts,
        )
        backend = load(manifest.entries.backend)(place)
        runtime = HostRuntime(place, backend)
        return Run(manifest, place, backend, runtime, progress)

    failed: HoldfastError
    try:
        asyncio.run(_main(started))
    except asyncio.CancelledError:
        return 130
    except HoldfastError as error:
        failed = error
    except OSError as error:
        full = no_space(error, run.path)
        if full is None:
            raise
        failed = full
    else:
        return 0
    # The log may lie on the disk that is full, and the reader of the progress may have exited.
    with suppress(OSError):
        sys.stderr.write(f"{failed}\n")
    with suppress(BrokenPipeError):
        progress({"stage": "failed", "error": str(failed), "exit_code": failed.exit_code})
    return failed.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv))
