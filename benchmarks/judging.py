"""What it costs to judge a big run directory by all properties, beside one np.sort of a column.

Run: `python -m benchmarks.judging [--ops N ...] [--locks N] [--writes N] [--violation]`. Each run
directory is drawn by `run_directory.py`, judged in a fresh process as `holdfast check` does it, its
evidence and verdicts.json included, and removed. CPU counts all threads, from reading the first
segment on; most imports are apart. What the verifier takes of it is measured by verifying again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.peak import peak_mib
from benchmarks.run_directory import Shape, write

from holdfast.engine.judging import judge_run
from holdfast.harness.history.reader import load
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verification.verify import verify_run
from holdfast.interpreter import build


def measured(path: Path) -> dict[str, object]:
    """Judge one run directory in this process; CPU in ms, peak memory in MiB."""
    begun = time.process_time_ns()
    verdicts = judge_run(RunDir(path))
    spent = (time.process_time_ns() - begun) / 1e6
    peak = peak_mib()
    stamps = np.random.default_rng(1).permutation(load(RunDir(path).history).history.rows["t_inv"])
    begun = time.process_time_ns()
    np.sort(stamps)
    sort = (time.process_time_ns() - begun) / 1e6
    begun = time.process_time_ns()
    verify_run(path)
    again = (time.process_time_ns() - begun) / 1e6
    said = {row.property: str(row.verdict) for row in verdicts.verdicts}
    return {
        "rows": len(stamps),
        "cpu_ms": spent,
        "verify_ms": again,
        "sort_ms": sort,
        "peak": peak,
        "said": said,
    }


def main() -> None:
    """Print what each size costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--locks", type=int, default=1)
    parser.add_argument("--writes", type=int, default=0)
    parser.add_argument("--violation", action="store_true")
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.judge is not None:
        sys.stdout.write(json.dumps(measured(args.judge)))
        return
    sys.stdout.write(f"{build()}\n")
    for ops in args.ops:
        shape = Shape(ops=ops, locks=args.locks, writes=args.writes, violation=args.violation)
        with tempfile.TemporaryDirectory() as folder:
            path = write(shape, Path(folder)).path
            argv = [sys.executable, "-m", "benchmarks.judging", "--judge", str(path)]
            done = subprocess.run(argv, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        sys.stdout.write(
            f"{ops:>9} ops, {found['rows']} rows: {found['cpu_ms']:8.0f} ms CPU,"
            f" {found['verify_ms']:.0f} ms of it to verify,"
            f" {found['cpu_ms'] / found['sort_ms']:5.1f} times one sort of a column"
            f" ({found['sort_ms']:.1f} ms), {found['cpu_ms'] * 1e6 / found['rows']:.0f} ns a row,"
            f" peak {found['peak']} MiB\n"
        )
        for prop, verdict in found["said"].items():
            sys.stdout.write(f"{'':>9}     {prop:<20} {verdict}\n")


if __name__ == "__main__":
    main()
