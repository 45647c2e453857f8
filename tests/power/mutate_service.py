"""Mutants of the reference service against `holdfast sim`:

    python -m tests.power.mutate_service COUNT [SEED [WORKERS]]
    python -m tests.power.mutate_service --only locks.queue:40 ...      of one place
    python -m tests.power.mutate_service --draw opportunities COUNT ...     by another draw of seeds

A mutant is one small change to one function of consensus or locks, as in `tests.power.mutate`. In
a fork that has it, seeds of the simulator run with a trace. What kills a mutant is noted with the
number of seeds and the CPU time until then:

    history   a violated promise, or a server that exits or fails: what is seen without a trace
    trace     a departure of a server from its specification

A mutant that the trace has killed goes on until the history kills it or its time is over. The time
of the history is counted without that of validating the trace.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count

from holdfast.engine.seed_search import one_seed, warm
from holdfast.engine.swarm import Way
from holdfast.interpreter import build
from tests.power.mutate import IN_A_LOOP, ROOT, Fork, Mutant, bound_cpu, chosen, mutants, put_in

FOLDERS = ("clusters/systems/reference/consensus", "clusters/systems/reference/locks")
SYSTEMS = ("reference", "reference", "reference", "chubby")
"""Taken in turns: lock-delays are those of chubby."""
FIRST = 700_000
"""Far from the seeds that tests pin and the benchmarks search."""
BUDGET_S = 60
"""CPU seconds of a mutant until it has survived, by the history and by the trace each."""

Kill = tuple[int, float]
"""(seeds, CPU seconds) until a mutant was killed."""


def watched(mutant: Mutant, way: Way = Way.PLAIN) -> bytes:
    """JSON: {"history": Kill, "trace": Kill}, without what did not kill it within BUDGET_S."""
    put_in(mutant)
    bound_cpu(2 * BUDGET_S + 60)
    kills: dict[str, Kill] = {}
    whole_s = trace_s = 0.0
    for seed in count(FIRST):
        begun_s = time.process_time()
        ran = one_seed(seed, SYSTEMS[seed % len(SYSTEMS)], {}, validated=True, way=way)
        whole_s += time.process_time() - begun_s
        trace_s += ran.trace_ns / 1e9
        spent = (seed - FIRST + 1, whole_s)
        if (ran.alarms or ran.problems) and "history" not in kills:
            kills["history"] = (spent[0], whole_s - trace_s)
        if ran.departure and "trace" not in kills:
            kills["trace"] = spent
        if "history" in kills or whole_s - trace_s > BUDGET_S:
            return json.dumps(kills).encode()
    raise AssertionError("seeds do not end")


def row(mutant: Mutant, way: Way = Way.PLAIN) -> tuple[str, str]:
    """(its outcome, one line of the table)."""
    code, found = Fork(lambda: watched(mutant, way)).ended()
    if code != 0:
        outcome = "loop" if code == IN_A_LOOP else f"failed ({code})"
        return outcome, f"{outcome:9} {'':35} {mutant}"
    kills: dict[str, Kill] = json.loads(found)
    outcome = "both" if len(kills) == 2 else "".join(kills) or "survived"
    told = [
        f"{name} {kills[name][0]:4} seeds {kills[name][1]:4.0f} s" if name in kills else " " * 23
        for name in ("history", "trace")
    ]
    return outcome, f"{outcome:9} {told[0]:23} {told[1]:21} {mutant}"


def say(line: str) -> None:
    """One line, at once: others may follow the file while it grows."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def judge(every: Sequence[Mutant], numbers: Sequence[int], way: Way) -> None:
    """Prints a line for each of these mutants, and what they came to."""
    outcomes = Counter[str]()
    for number in numbers:
        outcome, line = row(every[number], way)
        outcomes[outcome] += 1
        say(line)
    spent = os.times()
    say(f"{dict(outcomes)}, {sum(spent[:4]):.0f} s of CPU")


def main() -> None:
    os.chdir(ROOT)
    words, way = sys.argv[1:], Way.PLAIN
    if words[0] == "--draw":
        words, way = words[2:], Way(words[1])
    every = mutants(FOLDERS)
    numbers = chosen(words, every)
    workers = int(words[2]) if len(words) > 2 and words[0].isdecimal() else 1
    say(f"{len(numbers)} of {len(every)} mutants, draw {way}, {build()}")
    warm()
    children = []
    for worker in range(1, workers):
        child = os.fork()
        if not child:
            judge(every, numbers[worker::workers], way)
            os._exit(0)
        children.append(child)
    judge(every, numbers[::workers], way)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
