"""Sequential stopping: which cells of a campaign need no more runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from holdfast.harness.campaigns.results import Outcome, Result
from holdfast.harness.campaigns.stopping import LEAST, Decided
from holdfast.harness.core.statistics import none_in
from holdfast.harness.core.verdict import Verdict

HOLDS, VIOLATED, UNKNOWN = Verdict.HOLDS, Verdict.VIOLATED, Verdict.UNKNOWN
MUTEX, ORDER = "mutual-exclusion", "token-order"


def run(verdicts: Mapping[str, Verdict], kind: str = "pause") -> Result:
    rows = {
        prop: Outcome(verdict=verdict, promised=True, under={kind: verdict} if kind else {})
        for prop, verdict in verdicts.items()
    }
    return Result(
        key="k", system="mine", backend="sim", workload="critical-section", nemesis="pause",
        seed=1, verdict="HOLDS", exit_code=0, command="", properties=rows,
    )  # fmt: skip


def runs_until_decided(*results: Result, below: float = 0.05, most: int = 1000) -> int:
    """How many runs, taken from `results` in turn, decide a cell; `most` if they never do."""
    decided = Decided([below])
    for n in range(most):
        if decided(0):
            return n
        decided.add(0, results[n % len(results)])
    return most


@pytest.mark.parametrize("below", [0.09, 0.05, 0.01])
def test_a_cell_that_holds_is_decided_by_the_first_run_with_the_rate_below_its_bound(
    below: float,
) -> None:
    runs = runs_until_decided(run({MUTEX: HOLDS}), below=below)
    assert none_in(runs) < below <= none_in(runs - 1)


def test_every_property_that_was_exercised_must_be_decided() -> None:
    both = run({MUTEX: HOLDS, ORDER: HOLDS})
    rarely = runs_until_decided(run({MUTEX: HOLDS, ORDER: UNKNOWN}), both)
    assert rarely == 2 * runs_until_decided(both)
    assert runs_until_decided(run({MUTEX: HOLDS, ORDER: UNKNOWN})) == runs_until_decided(both)


def test_each_kind_of_fault_is_decided_by_itself() -> None:
    once = runs_until_decided(run({MUTEX: HOLDS}))
    assert runs_until_decided(run({MUTEX: HOLDS}), run({MUTEX: HOLDS}, "kill")) in (
        2 * once - 1,
        2 * once,
    )


def test_a_violation_decides_a_property_but_a_cell_has_its_least_runs() -> None:
    assert runs_until_decided(run({MUTEX: VIOLATED})) == LEAST
    assert runs_until_decided(run({MUTEX: VIOLATED, ORDER: HOLDS}), below=0.01) > LEAST


def test_a_violation_that_was_seen_once_needs_no_runs_in_which_it_holds() -> None:
    seldom = [run({MUTEX: VIOLATED}), *[run({MUTEX: HOLDS})] * 999]
    assert runs_until_decided(*seldom, below=0.01) == LEAST


def test_nothing_is_decided_by_runs_that_exercised_nothing_or_failed_or_had_problems() -> None:
    held = run({MUTEX: HOLDS})
    for worthless in (
        run({MUTEX: UNKNOWN}),
        replace(held, exit_code=4),
        replace(held, problems=("c1 is damaged",)),
    ):
        assert runs_until_decided(worthless) == 1000


def test_results_of_older_versions_count_without_a_kind() -> None:
    assert runs_until_decided(run({MUTEX: HOLDS}, kind="")) < 1000


def test_a_cell_without_a_bound_is_never_decided_and_cells_are_apart() -> None:
    decided = Decided([0.0, 0.05, 0.05])
    for _ in range(100):
        decided.add(0, run({MUTEX: HOLDS}))
        decided.add(1, run({MUTEX: HOLDS}))
    assert [decided(cell) for cell in range(3)] == [False, True, False]


def test_what_a_cell_was_seen_to_violate_is_kept_once_if_it_has_a_bound() -> None:
    decided = Decided([0.0, 0.05])
    for cell in range(2):
        decided.add(cell, run({MUTEX: VIOLATED, ORDER: HOLDS}))
    assert [decided.seen(cell) for cell in range(2)] == [frozenset(), {MUTEX}]
