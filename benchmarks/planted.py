"""How long the swarm looks for each planted bug: searches, seeds and CPU time of each.

`python benchmarks/planted.py [--by WAY] [--compare] [--searches N] [--bound S] [MUTANT ...]`: N
searches for each bug, all through seeds that no search before it tried, until it shows. A row is
written as soon as all of a bug's searches are done, or when its S seconds of CPU time are; the
search under way then counts as time spent and not as a find.

    history   the property that it breaks is violated, as clients see it (the default)
    trace     a server departs from its specification
    either    what `holdfast sim --mutant` does: whichever of the two comes first

--compare searches each bug by history and by either, in turns, and ends with the geometric mean of
how many times the CPU time per find was less.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import count
from statistics import geometric_mean, median

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


HISTORY, DEPARTURE, EITHER = "history", "trace", "either"
Search = tuple[int, list[int], float]
"""(seeds tried, how many each search that found took, CPU seconds of all)"""


def searched(name: str, searches: int, bound_s: float, way: str = HISTORY) -> Search:
    """N searches for a bug, or as many as its time is enough for."""
    mutant, took = MUTANTS[name], list[int]()
    begun_s = time.process_time()
    last = FIRST - 1
    for seed in count(FIRST):
        ran = one_seed(seed, mutant.system, {"mutant": name}, validated=way != HISTORY)
        by_history = way != DEPARTURE and caught(ran, mutant)
        if by_history or (way != HISTORY and ran.departure):
            took.append(seed - last)
            last = seed
        spent_s = time.process_time() - begun_s
        if len(took) == searches or spent_s > bound_s:
            return seed - FIRST + 1, took, spent_s
    raise AssertionError("seeds do not end")


def row(name: str, searches: int, bound_s: float, way: str = HISTORY) -> str:
    """One row of the table."""
    tried, took, spent_s = searched(name, searches, bound_s, way)
    mean = _mean(took, spent_s)
    seeds = f"{median(took):g}, {max(took)}" if took else "-"
    mutant = MUTANTS[name]
    return (
        f"| {name} | {mutant.area} | {mutant.breaks} | {len(took)} in {tried} | {seeds} | {mean} |"
    )


def _mean(took: Sequence[int], spent_s: float) -> str:
    """CPU seconds per find."""
    return f"{spent_s / len(took):.2f}" if took else f"over {spent_s:.0f}"


def compared(name: str, searches: int, bound_s: float) -> tuple[str, float]:
    """One row of the comparison, and by how much less CPU time a find took; 0 if unknown."""
    sides = [searched(name, searches, bound_s, way) for way in (HISTORY, EITHER)]
    told = [f"{len(took)} in {tried} | {_mean(took, spent_s)}" for tried, took, spent_s in sides]
    (_, before, before_s), (_, now, now_s) = sides
    less = (before_s / len(before)) / (now_s / len(now)) if before and now else 0.0
    return f"| {name} | {' | '.join(told)} | {f'{less:.1f}' if less else '-'} |", less


def main(words: Sequence[str]) -> None:
    """One row per bug, by area."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--bound", type=float, default=60.0)
    parser.add_argument("--by", choices=(HISTORY, DEPARTURE, EITHER), default=HISTORY)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("names", nargs="*", metavar="MUTANT")
    given = parser.parse_args(words)
    warm()
    times: list[float] = []
    for name in given.names or sorted(MUTANTS, key=lambda name: AREAS.index(MUTANTS[name].area)):
        if given.compare:
            line, less = compared(name, given.searches, given.bound)
            times += [less] if less else []
        else:
            line = row(name, given.searches, given.bound, given.by)
        say(line)
    if times:
        say(f"{len(times)} bugs, {geometric_mean(times):.2f} times less, worst {min(times):.2f}")


def say(line: str) -> None:
    """One line, at once: others may follow the file while it grows."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    main(sys.argv[1:])
