"""What it costs to judge a history in parts that is larger than memory should be.

Run: `python -m benchmarks.judging_in_parts [--ops N] [--times N] [--rows N] [--raw]`. A run
directory of N operations is drawn by `run_directory.py`, and follows itself so many times. Its full
segments are packed as a run leaves them, or with `--raw` as they are recorded, which takes 130
bytes of disk an operation. It is judged in a fresh process with `--rows` new rows a part.
CPU counts all threads, from reading the first segment on; verdicts.json is included.
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
from benchmarks.run_directory import START_NS, Shape, write

from holdfast.engine.judging import judge_run
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import NO_TOKEN
from holdfast.harness.history.reader import ROW_DTYPE, Header, by_writer, read_header
from holdfast.harness.history.segment_packer import pack
from holdfast.harness.judging.parts import MOST_ROWS
from holdfast.harness.recording.segments import HEADER_BYTES, segment_path
from holdfast.harness.runs.directory import RunDir
from holdfast.interpreter import build

CLIENTS = 10
FIRST_ROW_AT = 20
"""Byte of a segment's header that has the number of its first row."""


def followed(run: RunDir, shape: Shape, times: int, *, raw: bool) -> int:
    """Makes a drawn run follow itself, with later times, attempts and tokens; bytes of all."""
    turns = shape.ops // 2 + 2
    marks = [json.loads(line) for line in run.times.read_text().splitlines()]
    span_ns = marks[-1]["t_ns"] - START_NS + SECOND
    size = 0
    for writer, headers in by_writer(run.history).items():
        again = range(1, times) if writer != "probe" else range(times - 1, times)
        for n in again:
            for part, header in enumerate(headers):
                at = part + (n if writer != "probe" else 0) * len(headers)
                path = _follow(run, header, at, n * span_ns, n * turns)
                size += _packed(path, raw)
        size += sum(_packed(header.path, raw) for header in headers)
    for mark in marks[1:]:
        mark["t_ns"] += (times - 1) * span_ns
    run.times.write_text("".join(json.dumps(mark) + "\n" for mark in marks))
    return size


def _packed(path: Path, raw: bool) -> int:
    """Packs a segment if it is full; its bytes."""
    header = read_header(path)
    if not raw and header.rows == header.capacity:
        pack(header)
    return path.stat().st_size


def _follow(run: RunDir, header: Header, part: int, later_ns: int, turns: int) -> Path:
    data = bytearray(header.path.read_bytes())
    first = part * header.capacity
    data[FIRST_ROW_AT : FIRST_ROW_AT + 4] = first.to_bytes(4, "little")
    rows = np.frombuffer(data, ROW_DTYPE, offset=HEADER_BYTES)
    for name in ("t_inv", "t_ret"):
        rows[name][rows[name] > 0] += later_ns
    rows["attempt"][rows["attempt"] > 0] += turns // CLIENTS + 1
    rows["token"][rows["token"] != NO_TOKEN] += turns
    path = segment_path(run.history, header.writer, part)
    path.write_bytes(data)
    return path


def measured(path: Path, rows: int) -> dict[str, object]:
    """Judge one run directory in this process; CPU in s, peak memory in MiB."""
    begun = time.process_time()
    judged = judge_run(RunDir(path), in_parts=rows)
    spent = time.process_time() - begun
    assert judged.in_parts is not None
    return {
        "cpu_s": spent,
        "peak": peak_mib(),
        "rows": judged.in_parts.rows,
        "parts": judged.in_parts.parts,
        "kept": judged.in_parts.kept,
        "said": {row.property: str(row.verdict) for row in judged.verdicts},
    }


def main() -> None:
    """Print what it costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--rows", type=int, default=MOST_ROWS)
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--judge", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.judge is not None:
        sys.stdout.write(json.dumps(measured(args.judge, args.rows)))
        return
    sys.stdout.write(f"{build()}\n")
    with tempfile.TemporaryDirectory() as folder:
        shape = Shape(ops=args.ops, clients=CLIENTS)
        run = write(shape, Path(folder))
        size = followed(run, shape, args.times, raw=args.raw)
        argv = [sys.executable, "-m", "benchmarks.judging_in_parts"]
        argv += ["--judge", str(run.path), "--rows", str(args.rows)]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    ops = args.ops * args.times
    sys.stdout.write(
        f"{ops} ops, {found['rows']} rows in {found['parts']} parts: {found['cpu_s']:.1f} s CPU,"
        f" {found['cpu_s'] * 1e6 / ops:.2f} us an operation, peak {found['peak']} MiB;"
        f" {found['kept']} rows taken over at most; {size / found['rows']:.1f} bytes a row\n"
    )
    sys.stdout.write(f"{', '.join(f'{prop} {word}' for prop, word in found['said'].items())}\n")


if __name__ == "__main__":
    main()
