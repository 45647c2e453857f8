"""What judging costs per op, in calls of functions: a count that no busy machine changes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.run_directory import Shape, write

from holdfast.engine.runner import judge_run
from holdfast.harness.runs.directory import RunDir

FEW, MANY = 4_000, 16_000
MOST_PER_OP = 12
"""It was 8 when this was written, and 36 when the verifier derived the end of every hold."""


def calls(folder: Path, ops: int) -> int:
    """How many functions are called to judge a run, ours and others'."""
    run, count = RunDir(write(Shape(ops=ops), folder).path), 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        judge_run(run)
    finally:
        sys.setprofile(None)
    return count


def test_an_op_more_costs_few_calls_in_all_checkers_evidence_and_the_verifier(
    tmp_path: Path,
) -> None:
    judge_run(RunDir(write(Shape(ops=10), tmp_path / "first").path))
    few, many = calls(tmp_path / "few", FEW), calls(tmp_path / "many", MANY)
    assert many - few <= MOST_PER_OP * (MANY - FEW)
