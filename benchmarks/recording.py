"""What recording an op costs, beside appending the same two stamped tuples to a list.

Run: `python benchmarks/recording.py`. Both sides take the same two stamps; rounds alternate, so a
busy machine slows both. The number to compare with other machines is the ratio.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from holdfast.harness.core.clock import now_ns
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.recording.segments import Recorder
from holdfast.interpreter import build

OPS = 20_000
ROUNDS = 15


def listed(ops: int) -> float:
    """CPU nanoseconds an op of appending an invocation and a completion to a list."""
    rows: list[tuple[int, int, int, int, int, int]] = []
    append = rows.append
    begun = time.process_time_ns()
    for n in range(ops):
        append((now_ns(), Op.TRY, 1, 0, n, Status.INVOKED))
        append((now_ns(), Op.TRY, 1, 0, n, Status.OK))
    return (time.process_time_ns() - begun) / ops


def recorded(ops: int, directory: Path, writer: str) -> float:
    """CPU nanoseconds an op of recording the same into a crash-safe segment."""
    with Recorder(directory, writer, {"node": "c1", "processes": [1]}) as recorder:
        recorder.complete(recorder.invoke(Op.TRY, 1, 0), Status.OK)
        begun = time.process_time_ns()
        for n in range(ops):
            row = recorder.invoke(Op.TRY, 1, 0, attempt=n)
            recorder.complete(row, Status.OK)
        return (time.process_time_ns() - begun) / ops


def main() -> None:
    """Print medians and their ratio."""
    lists, segments = [], []
    with tempfile.TemporaryDirectory() as folder:
        for n in range(ROUNDS):
            lists.append(listed(OPS))
            segments.append(recorded(OPS, Path(folder), f"w{n}"))
    a, b = statistics.median(lists), statistics.median(segments)
    sys.stdout.write(f"two tuples appended: {a:7.0f} ns CPU an op\n")
    sys.stdout.write(f"recorded:            {b:7.0f} ns CPU an op, ratio {b / a:.2f}\n")


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    main()
