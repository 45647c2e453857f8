"""A million operations of correct services, over all scenarios: nobody is accused.

Four scenarios are about votes without consensus, which are no correct services: the same faults
befall the reference service here. A sweep is run at each of its values in turn.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.commands.scenario_command import plan_of
from holdfast.engine import sweep as sweeping
from holdfast.engine.seed_search import one_plan
from holdfast.planning import prepare
from holdfast.planning.resolve import Prepared
from holdfast.scenarios import SCENARIOS, staging

OPS = 1_000_000
FIRST_SEED = 50_000
INCORRECT = {"majority", "redlock"}
"""Systems of plan files that are broken by design, or promise nothing of what their files do."""


def plans(seed: int) -> Iterator[tuple[str, Prepared]]:
    """Every scenario once, on a correct service; a sweep at the value whose turn it is."""
    for name, scenario in SCENARIOS.items():
        over: dict[str, Any] = {"backend": "sim", "seed": seed}
        if staging.table_of(name, over)["system"] in INCORRECT:
            over["system"] = "reference"
        if scenario.sweep:
            table = staging.table_of(name, over)
            sweep = sweeping.read(table, name)
            value = sweep.values[seed % len(sweep.values)]
            yield name, prepare.prepared(sweeping.plan_at(table, sweep, value))
        else:
            yield name, prepare.prepared(plan_of(name, over))


@pytest.mark.power
def test_a_million_operations_of_correct_services_accuse_nobody(
    record_property: Callable[[str, object], None],
) -> None:
    ops: Counter[str] = Counter()
    seed = FIRST_SEED
    while sum(ops.values()) < OPS:
        for name, prepared in plans(seed):
            ran = one_plan(prepared, f"scenario {name} --seed {seed}")
            assert not ran.alarms, (name, seed, ran.alarms)
            assert not ran.problems, (name, seed, ran.problems)
            ops[name] += ran.ops
        seed += 1
        gc.collect()
    assert set(ops) == set(SCENARIOS)
    record_property("operations", dict(ops))
