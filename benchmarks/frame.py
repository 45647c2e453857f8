"""What `Run.frame()` costs: python -m benchmarks.frame [ROWS]

One history of random rows; CPU and memory of its frame, beside reading the rows once as bytes.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from tests.checkers.shorthand import case as shorthand

from holdfast.api import history_frame
from holdfast.harness.core.case import MERGED_DTYPE, Case, History
from holdfast.interpreter import build

ROWS = 1_000_000


def case_of(number: int) -> Case:
    """A history with about five rows per attempt."""
    rng = np.random.default_rng(1)
    rows = np.zeros(number, MERGED_DTYPE)
    rows["f"], rows["status"] = rng.integers(1, 18, number), rng.integers(2, 5, number)
    rows["t_inv"] = np.sort(rng.integers(10**9, 10**11, number))
    rows["t_ret"] = rows["t_inv"] + rng.integers(0, 10**7, number)
    rows["process"], rows["row"] = rng.integers(1, 4, number), np.arange(number)
    client = rows["process"].astype(np.int64) << 32
    rows["attempt"] = client | rng.integers(1, max(2, number // 15), number)
    rows["op"] = client | rng.integers(0, number, number)
    rows["token"], rows["key"] = rng.integers(-1, 1000, number), rng.integers(0, 3, number)
    history = History(rows=rows, strings=("", "lock-1", "lock-2"), writers=("w",))
    return Case(
        history=history, promises=shorthand("0a? 0a+1").promises, windows=(), asked=(),
        start_ns=10**9, stop_ns=10**11, end_ns=10**11, lease_ns=10**9,
        nodes={1: "c1", 2: "c2", 3: "c3"},
    )  # fmt: skip


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    case = case_of(number)
    history_frame.frame(case, np.arange(min(number, 10)))  # imports pandas
    begun = time.process_time()
    frame = history_frame.frame(case, np.arange(number))
    spent = time.process_time() - begun
    begun = time.process_time()
    case.history.rows.tobytes()
    copied = time.process_time() - begun
    size = int(frame.memory_usage(deep=True).sum())
    sys.stdout.write(
        f"{number} rows: {spent:.2f} s of CPU ({spent / max(copied, 1e-9):.0f} times a copy of the"
        f" rows), {size / 1e6:.0f} MB, {size / (96 * number):.2f} times the segments; "
        f"{build()}\n"
    )


if __name__ == "__main__":
    main()
