"""What the CPU of one seed of the swarm goes to, and so how much less a find could cost at best.

`python -m benchmarks.seed_stages [--seeds N] [SYSTEM ...]`: for each system, N seeds as
`holdfast sim` draws them. A stage is between two marks of the run, or follows it:

    drawn      workload, faults and options of the seed
    deployed   servers and clients start, until the first acquire can be sent
    workload   until the clients are told to stop
    settled    heals, waits for the servers, ends the processes
    trace      each step of the servers against the specification
    judged     history, checkers, opportunities, certificates
    rest       loops are closed, garbage is collected

`before` is the share of the workload's CPU before the first completed call, `after` that after the
last one: neither can show anything. A stage that cost nothing, of share s, would make a find
1 / (1 - s) times as cheap.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from holdfast.clusters.backends.sim.recorder import SimRecorder
from holdfast.clusters.backends.sim.run import VirtualRuntime
from holdfast.engine.seed_search import one_seed, warm
from holdfast.harness.runs.journal import FaultRow, Mark
from holdfast.interpreter import build

SYSTEMS = ("reference", "single", "majority", "redlock", "chubby")
STAGES = ("drawn", "deployed", "workload", "settled", "trace", "judged", "rest")


class Stamps:
    """CPU in ns at each mark of a run, and at the first and the last completion of an attempt."""

    def __init__(self) -> None:
        self.at: dict[str, int] = {}

    @contextmanager
    def taken(self) -> Iterator[None]:
        """While this lasts, marks and rows of simulated runs are stamped."""
        append = VirtualRuntime.append
        complete = SimRecorder.complete

        def marked(runtime: VirtualRuntime, row: FaultRow | Mark) -> None:
            append(runtime, row)
            if isinstance(row, Mark):
                self.at.setdefault(row.mark, time.process_time_ns())

        def completed(recorder: SimRecorder, *args: Any, **named: Any) -> int:
            number = complete(recorder, *args, **named)
            now_ns = time.process_time_ns()
            self.at.setdefault("first", now_ns)
            self.at["last"] = now_ns
            return number

        with (
            patch.object(VirtualRuntime, "append", marked),
            patch.object(SimRecorder, "complete", completed),
        ):
            yield


def measured(system: str, seeds: int) -> Counter[str]:
    """CPU in ns of all stages of so many seeds, with `before` and `after`."""
    total: Counter[str] = Counter()
    stamps = Stamps()
    with stamps.taken():
        for seed in range(1, seeds + 1):
            stamps.at.clear()
            gc.collect()
            begun_ns = time.process_time_ns()
            ran = one_seed(seed, system, {}, validated=True)
            whole_ns = time.process_time_ns() - begun_ns
            at = stamps.at
            if not {"deployed", "stop", "first"} <= at.keys():
                continue
            workload_ns = at["stop"] - at["deployed"]
            # `ran.cpu_ns` is from the first event of the run to its last.
            to_deployed_ns = at["deployed"] - begun_ns
            followed_ns = ran.trace_ns + ran.judge_ns
            settled_ns = at["end"] - at["stop"] if "end" in at else 0
            drawn_ns = to_deployed_ns + workload_ns + settled_ns - ran.cpu_ns
            total += Counter(
                seeds=1,
                whole=whole_ns,
                drawn=max(drawn_ns, 0),
                deployed=to_deployed_ns - max(drawn_ns, 0),
                workload=workload_ns,
                settled=settled_ns,
                trace=ran.trace_ns,
                judged=ran.judge_ns,
                rest=max(0, whole_ns - to_deployed_ns - workload_ns - settled_ns - followed_ns),
                before=max(0, min(at["first"], at["stop"]) - at["deployed"]),
                after=max(0, at["stop"] - max(at["last"], at["deployed"])),
            )
    return total


def main(argv: Sequence[str]) -> None:
    """The table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seeds", type=int, default=200)
    options.add_argument("systems", nargs="*", metavar="SYSTEM")
    given = options.parse_args(argv)
    warm()
    out = sys.stdout.write
    out(f"{build()}\n| system | seeds | ms | {' | '.join(STAGES)} | before | after |\n")
    out("| --- " * (len(STAGES) + 5) + "|\n")
    for system in given.systems or SYSTEMS:
        total = measured(system, given.seeds)
        count, whole = max(total["seeds"], 1), max(total["whole"], 1)
        cells = [f"{100 * total[stage] / whole:.0f} %" for stage in STAGES]
        cells += [
            f"{100 * total[edge] / max(total['workload'], 1):.0f} %" for edge in ("before", "after")
        ]
        out(f"| {system} | {count} | {whole / count / 1e6:.1f} | {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main(sys.argv[1:])
