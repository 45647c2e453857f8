"""How long a cluster takes: to open, to have a process on every node, to close.

`python benchmarks/cluster_start.py [local|docker] [--nodes N] [--runs N]`; medians of several runs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from holdfast.clusters.backends.docker import engine
from holdfast.clusters.backends.docker.backend import DockerBackend
from holdfast.clusters.backends.local import backend as local
from holdfast.clusters.backends.local.backend import LocalBackend
from holdfast.harness.core.clock import MILLISECOND, now_ns
from holdfast.harness.core.ports import Command, Node, Place
from holdfast.interpreter import build

STEPS = ("open", "start", "close")
BACKENDS: dict[str, Any] = {"local": LocalBackend, "docker": DockerBackend}
IDLE = ("-S", "-c", "import signal; signal.pause()")


async def once(kind: str, count: int, folder: Path, run: int) -> list[float]:
    """Milliseconds of each step of one run."""
    label = f"holdfast-bench-{os.getpid()}-{run}"
    place = Place(run_id=label, run_dir=folder, shared=(), label=label)
    backend = BACKENDS[kind](place)
    stamps = [now_ns()]
    try:
        nodes = await backend.open([Node(name=f"n{n}", role="server") for n in range(count)])
        stamps.append(now_ns())
        commands = {
            node.name: Command(argv=(node.python, *IDLE), log=folder / node.name / "idle.log")
            for node in nodes
        }
        await asyncio.gather(*(backend.start(name, what) for name, what in commands.items()))
        stamps.append(now_ns())
    finally:
        await backend.close()
    stamps.append(now_ns())
    return [(b - a) / MILLISECOND for a, b in pairwise(stamps)]


async def measure(kind: str, count: int, runs: int) -> str:
    """A line of medians."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [await once(kind, count, Path(folder), run) for run in range(runs)]
    shown = (
        f"{step} {statistics.median(column):.0f} ms"
        for step, column in zip(STEPS, zip(*rows, strict=True), strict=True)
    )
    return f"{kind}: {count} nodes, median of {runs}: {', '.join(shown)}"


def main() -> int:
    """Measures what was asked for; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=BACKENDS)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    if asked.kind == "local" and local.OUTSIDE_VARIABLE not in os.environ:
        words = [*local.launch_prefix(), sys.executable, *sys.argv]
        os.execvp(words[0], words)
    reason = local.precheck() if asked.kind == "local" else engine.precheck()
    if reason:
        sys.stderr.write(reason + "\n")
        return 4
    sys.stdout.write(asyncio.run(measure(asked.kind, asked.nodes, asked.runs)) + "\n")
    return 0


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    sys.exit(main())
