"""Number of entries against number of causes, of planted bugs at seeds that no test has.

    python -m tests.power.grouping [FIRST_SEED [SEEDS [BUG ...]]]

Per bug the first seed of the swarm from FIRST_SEED on that breaks its property, of at most SEEDS.
A line each: whether entries equal causes and the first entry is the bug, or what differs.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from holdfast.catalogue.mutants import MUTANTS
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.judged import Judged
from tests.front import test_causes


def shown(name: str, first: int, seeds: int) -> tuple[int, Judged] | None:
    """The first seed that breaks the property of a bug, with its run."""
    for seed in range(first, first + seeds):
        try:
            run = test_causes.planted(name, seed)
        except EnvironmentFailed:  # by a server's own assertion
            continue
        finally:
            gc.collect()
        broken = {row.property for row in run.verdicts if row.verdict is Verdict.VIOLATED}
        if MUTANTS[name].breaks in broken:
            return seed, run
    return None


def judged(name: str, run: Judged) -> str:
    """ "equal", or what is wrong with the entries of a run."""
    try:
        equal = test_causes.check(name, run)
    except AssertionError as error:
        return f"MIXED {error}"
    entries = [(one.kind, one.broken, list(one.findings)) for one in run.causes]
    return "equal" if equal else f"DIFFERENT {entries}"


def main(words: Sequence[str]) -> None:
    """Print a line per bug and the sum."""
    first = int(words[0]) if words else 9000
    seeds = int(words[1]) if len(words) > 1 else 60
    results = []
    for name in words[2:] or sorted(test_causes.SEEDS):
        found = shown(name, first, seeds)
        if found is None:
            sys.stdout.write(f"{name}: not shown in {seeds} seeds\n")
            continue
        results.append(judged(name, found[1]))
        sys.stdout.write(f"{name} seed {found[0]}: {results[-1]}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{results.count('equal')} of {len(results)} equal\n")


if __name__ == "__main__":
    main(sys.argv[1:])
