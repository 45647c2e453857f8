"""What it costs to look for opportunities in a big run, beside judging it.

Run: `python -m benchmarks.opportunities [--ops N] [--locks N] [--writes N] [--faults N]`. The run
directory is drawn by `run_directory.py`, with writes, and has no faults. It is judged in this
process by all of its checkers; then every row of the table is looked at in the same history, as if
faults of each class had struck the servers in turn. The number that counts is the ratio of the two,
in CPU of one process: a quarter is the limit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.run_directory import Shape, write

from holdfast import catalogue
from holdfast.checkers.opportunities.row import FaultClass, fault_class
from holdfast.checkers.opportunities.table import every_row
from holdfast.engine.checkers import with_named
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.history.reader import load
from holdfast.harness.judging.judge import judge_case
from holdfast.harness.judging.run_case import case_of
from holdfast.harness.runs import journal
from holdfast.harness.runs.directory import RunDir
from holdfast.interpreter import build

LIMIT = 0.25


def windows(case: Case, faults: int) -> dict[FaultClass, list[Window]]:
    """Faults of one kind of each class: short ones of the leader, all over the run."""
    kinds: dict[FaultClass, tuple[str, Traits]] = {}
    for name, row in catalogue.NEMESES.items():
        of = fault_class(row.traits)
        if of is not FaultClass.OTHER and not row.traits.on_connections:
            kinds.setdefault(of, (name, row.traits))
    step_ns = (case.end_ns - case.start_ns) // (faults + 1)
    return {
        of: [
            Window(
                id=f"{name}-{n}",
                do=name,
                target="leader",
                nodes=("n1",),
                leader="n1",
                from_ns=case.start_ns + n * step_ns,
                to_ns=case.start_ns + n * step_ns + min(step_ns // 2, SECOND // 2),
                effective=True,
                evidence={"offset_ns": {"n1": SECOND}},
                traits=traits,
            )
            for n in range(1, faults + 1)
        ]
        for of, (name, traits) in kinds.items()
    }


def spent(case: Case, struck: Mapping[FaultClass, list[Window]]) -> dict[str, tuple[float, int]]:
    """CPU in ms and the number of opportunities, of each row under each class that it is about."""
    costs = {}
    for row in every_row():
        for of, mine in struck.items():
            if row.faults not in (of, FaultClass.ANY) or not row.concerns(case):
                continue
            # A row of the class "any" finds its places once.
            begun = time.process_time_ns()
            seen = row.look(replace(case, windows=tuple(mine)), mine)
            costs[f"{row.id} {of}"] = (time.process_time_ns() - begun) / 1e6, seen.count
    return costs


def whole(case: Case, struck: Mapping[FaultClass, list[Window]]) -> float:
    """CPU in ms of all of them. The clock is read once: reading it takes a third of a ms on some
    machines, as much as most rows."""
    begun = time.process_time_ns()
    for row in every_row():
        for of, mine in struck.items():
            if row.faults in (of, FaultClass.ANY) and row.concerns(case):
                row.look(replace(case, windows=tuple(mine)), mine)
    return (time.process_time_ns() - begun) / 1e6


def copied(memo: Mapping[str, object]) -> dict[str, object]:
    """A memo whose own maps are copies."""
    return {name: dict(value) if isinstance(value, dict) else value for name, value in memo.items()}


def main() -> None:
    """Print the cost of judging, of each row, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, default=1_000_000)
    parser.add_argument("--locks", type=int, default=1)
    parser.add_argument("--writes", type=int, default=1)
    parser.add_argument("--faults", type=int, default=20)
    args = parser.parse_args()
    shape = Shape(ops=args.ops, locks=args.locks, writes=args.writes)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir(write(shape, Path(folder)).path)
        manifest, checkers = with_named(run.read_manifest(), (), run.own)
        recording = load(run.history)
        case = case_of(manifest, recording, journal.marks(run), journal.faults(run))
        begun = time.process_time_ns()
        judge_case(manifest, case, checkers)
        judged_ms = (time.process_time_ns() - begun) / 1e6
    # As a service of three servers, of which one leads.
    case = replace(case, options={**case.options, "servers": "3"})
    # What judging derived is there for the rows as well; each measurement has a copy of it.
    struck, known = windows(case, args.faults), case.memo
    costs = spent(replace(case, memo=copied(known)), struck)
    total_ms = whole(replace(case, memo=copied(known)), struck)
    alone = {
        of: whole(replace(case, memo=copied(known)), {of: mine}) for of, mine in struck.items()
    }
    sys.stdout.write(f"{build()}\n")
    for name, (ms, count) in sorted(costs.items(), key=lambda one: -one[1][0]):
        sys.stdout.write(f"{ms:9.1f} ms {count:8} {name}\n")
    for of, ms in alone.items():
        sys.stdout.write(f"{ms:9.1f} ms, {ms / judged_ms:.2f} of judging: faults of {of} alone\n")
    sys.stdout.write(
        f"{len(case.history.rows)} rows: judged in {judged_ms:.0f} ms of CPU, the rows of"
        f" {args.faults} faults of each class in {total_ms:.0f} ms: {total_ms / judged_ms:.2f}"
        f" (at most {LIMIT})\n"
    )


if __name__ == "__main__":
    main()
