"""What shrinking costs: faults before and after, CPU time, and that of one replay of the result.

`python benchmarks/shrinking.py [MUTANT ...]`: the first three failing seeds of each planted bug.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

from holdfast.catalogue.mutants import MUTANTS
from holdfast.engine import shrinker, swarm, trials
from holdfast.engine.trials import Shown
from holdfast.harness.core.clock import SECOND
from holdfast.harness.plans.plan import Plan
from holdfast.interpreter import build
from holdfast.planning import prepare

USUAL = ("early-expiry", "unchecked-tokens", "tolerant-tokens", "release-by-lock", "lone-commit")
SEEDS = 3
BUDGET_NS = 300 * SECOND


def failing(name: str) -> list[tuple[Plan, Shown]]:
    """The first plans of the swarm that show a bug as it has to be shown."""
    found: list[tuple[Plan, Shown]] = []
    for seed in range(1, MUTANTS[name].seeds * SEEDS):
        plan = prepare.complete(swarm.draw(seed, "reference", 3, {"mutant": name}))
        shown = [one for one in trials.simulated(plan).shown if one.prop == MUTANTS[name].breaks]
        found += [(plan, one) for one in shown[:1]]
        if len(found) == SEEDS:
            break
    return found


def main(names: list[str]) -> None:
    """One line per bug."""
    for name in names or USUAL:
        before, after, cpu_s, replay_ms = [], [], [], []
        for plan, shown in failing(name):
            shrunk = shrinker.shrink_within(plan, shown, BUDGET_NS, Path(), "")
            before.append(len(plan.faults))
            after.append(len(shrunk.best.plan.faults))
            cpu_s.append(round(shrunk.cpu_ns / 1e9, 2))
            replay_ms.append(round(trials.simulated(shrunk.best.plan).cpu_ns / 1e6, 1))
        sys.stdout.write(
            f"{name}: faults {before} -> {after} (median {median(after):g}),"
            f" {cpu_s} s CPU, replay {replay_ms} ms\n"
        )


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    main(sys.argv[1:])
