"""Acquire and release of the reference service on three local nodes, one client, no faults.

Run: `python benchmarks/reference_latency.py`. It is a whole run with its recorder, so the numbers
are those that a report would show. Both calls wait for a majority to have the command on disk;
beside them stands the cost of one synced write on this disk, for the ratio.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from holdfast.harness.core.clock import MILLISECOND
from holdfast.interpreter import build

RUN = ["run", "--system", "reference", "--clients", "1", "--time", "10s", "--json", "--seed", "1"]
SYNCS = 200


def synced_write_ns(folder: str) -> float:
    """Median nanoseconds of appending a hundred bytes and waiting until they are on disk."""
    took = []
    with open(os.path.join(folder, "synced"), "ab", buffering=0) as file:
        for _ in range(SYNCS):
            begun = time.perf_counter_ns()
            file.write(b"x" * 100)
            os.fdatasync(file.fileno())
            took.append(time.perf_counter_ns() - begun)
    return statistics.median(took)


def main() -> None:
    """Print median and p99 of each call, and what they are in synced writes."""
    with tempfile.TemporaryDirectory() as folder:
        sync_ns = synced_write_ns(folder)
        argv = [sys.executable, "-m", "holdfast", *RUN, "--out", folder]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        latency = json.loads(done.stdout)["evidence"]["latency_ns"]
    sys.stdout.write(f"one synced write    {sync_ns / MILLISECOND:6.2f} ms\n")
    for name in ("acquire", "renew", "release"):
        told = latency[name]
        sys.stdout.write(
            f"{name:<19} {told['p50'] / MILLISECOND:6.2f} ms median,"
            f" {told['p99'] / MILLISECOND:6.2f} ms p99, {told['n']} calls;"
            f" median is {told['p50'] / sync_ns:.1f} synced writes\n"
        )


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    main()
