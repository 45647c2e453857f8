"""How long the swarm looks for each planted bug: searches, seeds and CPU time of each.

`python benchmarks/planted.py [--trace] [--searches N] [--bound S] [MUTANT ...]`: N searches for
each bug, all through seeds that no search before it tried, until it shows. A row is written as soon
as all of a bug's searches are done, or when its S seconds of CPU time are; the search under way
then counts as time spent and not as a find. With --trace a find is a departure of the servers from
their specification, and nothing else.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import count
from statistics import median

from holdfast.catalogue.mutants import AREAS, ASSERTION, MUTANTS, TRACE, Mutant
from holdfast.engine.seed_search import Seed, one_seed, warm
from holdfast.interpreter import build

FIRST = 100_000
"""Searches begin here, far from the seeds that tests pin and budgets were looked up with."""


def caught(seed: Seed, mutant: Mutant) -> bool:
    """Whether a seed shows the bug as it has to be shown."""
    if not seed.found or mutant.breaks == TRACE:
        return False
    if mutant.breaks == ASSERTION:
        return any("exited unexpectedly: AssertionError" in problem for problem in seed.problems)
    return mutant.breaks in [prop for prop, _ in seed.alarms]


def searched(
    name: str, searches: int, bound_s: float, *, by_trace: bool = False
) -> tuple[int, list[int], float]:
    """(seeds tried, how many each search that found took, CPU seconds of all)."""
    mutant, took = MUTANTS[name], list[int]()
    begun_s = time.process_time()
    last = FIRST - 1
    for seed in count(FIRST):
        ran = one_seed(seed, mutant.system, {"mutant": name}, validated=by_trace)
        if ran.departure if by_trace else caught(ran, mutant):
            took.append(seed - last)
            last = seed
        spent_s = time.process_time() - begun_s
        if len(took) == searches or spent_s > bound_s:
            return seed - FIRST + 1, took, spent_s
    raise AssertionError("seeds do not end")


def row(name: str, searches: int, bound_s: float, *, by_trace: bool = False) -> str:
    """One row of the table."""
    tried, took, spent_s = searched(name, searches, bound_s, by_trace=by_trace)
    mean = f"{spent_s / len(took):.1f}" if took else f"over {spent_s:.0f}"
    seeds = f"{median(took):g}, {max(took)}" if took else "-"
    mutant = MUTANTS[name]
    return (
        f"| {name} | {mutant.area} | {mutant.breaks} | {len(took)} in {tried} | {seeds} | {mean} |"
    )


def main(words: Sequence[str]) -> None:
    """One row per bug, by area."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--bound", type=float, default=60.0)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("names", nargs="*", metavar="MUTANT")
    given = parser.parse_args(words)
    warm()
    for name in given.names or sorted(MUTANTS, key=lambda name: AREAS.index(MUTANTS[name].area)):
        line = row(name, given.searches, given.bound, by_trace=given.trace)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    main(sys.argv[1:])
