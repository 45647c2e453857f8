"""How long the swarm looks for each planted bug: searches, seeds and CPU time of each.

`python benchmarks/planted.py [MUTANT ...]`: up to twenty searches for each, one after the other
through the seeds from 1 on, within a bound of CPU time.
"""

from __future__ import annotations

import sys
import time
from itertools import count

from holdfast.mutants import MUTANTS
from holdfast.planted import ASSERTION, Mutant
from holdfast.simulating import Seed, one_seed, warm

SEARCHES = 20
BOUND_S = 15.0


def caught(seed: Seed, mutant: Mutant) -> bool:
    """Whether a seed shows the bug as it has to be shown."""
    if mutant.breaks == ASSERTION:
        return any("ended by itself: AssertionError" in problem for problem in seed.problems)
    return mutant.breaks in [prop for prop, _ in seed.alarms]


def searched(name: str) -> tuple[int, list[int], float]:
    """(seeds tried, those that showed the bug, CPU seconds of all)."""
    mutant, found = MUTANTS[name], list[int]()
    begun_s = time.process_time()
    for seed in count(1):
        given = {"mutant": name, **mutant.asked[1]}
        if caught(one_seed(seed, mutant.system, given, mutant.asked[0]), mutant):
            found.append(seed)
        spent_s = time.process_time() - begun_s
        if len(found) == SEARCHES or spent_s > BOUND_S:
            return seed, found, spent_s
    raise AssertionError("seeds do not end")


def main(names: list[str]) -> None:
    """One row of a table per bug."""
    warm()
    for name in names or MUTANTS:
        tried, found, spent_s = searched(name)
        mean = f"{spent_s / len(found):.1f}" if found else "-"
        longest = max((b - a for a, b in zip([0, *found], found, strict=False)), default=0)
        sys.stdout.write(
            f"| {name} | {MUTANTS[name].area} | {MUTANTS[name].breaks} | {len(found)} of {tried} |"
            f" {longest} | {mean} |\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
