"""A run without an opportunity of a row is UNKNOWN, and the command that it prints has one."""

from __future__ import annotations

import shlex

import pytest

from holdfast.checkers.opportunities.table import every_row
from tests.power import default_nemeses, honesty
from tests.power.honesty import PLANS, Counted, Honest, add

SAMPLE = [
    "--nemesis kill:target=leader",
    "--nemesis pause:target=leader",
    "--nemesis backup-restore",
    "--nemesis partition:target=leader --workload renewal",
]
SEEDS = range(500, 510)
"""Two of each of the plans that lack opportunities."""


def test_what_counts_for_a_row() -> None:
    honest, row = Honest(), Counted("row", True, False, False, True, True)
    for one in (
        row,
        row._replace(met=True),
        row._replace(answered=False),
        row._replace(unknown=False, answered=False),
        row._replace(held=True, answered=False),
        row._replace(staged=False, held=True),
        row._replace(staged=False),
    ):
        add(honest, one)
    assert honest == Honest(runs=7, without=4, held=1, unnamed=1, met=1, aside=1)
    assert "1 HOLDS, 1 without a command; 1 of 3 commands had one; 1 aside" in str(honest)


def test_of_an_option_that_is_given_twice_the_later_counts() -> None:
    words = ["--system", "reference", "--time", "1s", "--set", "lazy_pct=9", "--clients", "3"]
    run = honesty.simulated([*words, "--set", "lazy_pct=0", "--seed", "1"])
    assert (run.system, run.seed) == ("reference", 1)


@pytest.mark.slow
@pytest.mark.parametrize("plan", SAMPLE)
def test_runs_without_an_opportunity_never_hold_and_their_commands_have_one(plan: str) -> None:
    found = honesty.table(SEEDS, [plan], [row.id for row in every_row()])
    assert not any(one.held or one.unnamed for one in found.values())
    without = sum(one.without for one in found.values())
    assert without >= 10
    assert sum(one.met for one in found.values()) >= without * 0.95


@pytest.mark.power
@pytest.mark.parametrize("plan", PLANS)
def test_the_same_of_all_plans(plan: str) -> None:
    for one in honesty.table(range(500, 600), [plan], [row.id for row in every_row()]).values():
        assert not one.held
        assert one.met >= 0.95 * one.without


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lock", "kind"),
    [("single", "kill"), ("endless-lease", "partition"), ("wall-clock", "clock")],
)
def test_default_nemeses_show_the_defect_of_a_lock(lock: str, kind: str) -> None:
    assert default_nemeses.violated(lock, kind, range(1, 5)) >= 3


def test_a_violation_of_what_a_lock_never_promised_is_no_find_of_a_mutant() -> None:
    run = honesty.simulated(shlex.split("--system single --nemesis kill --time 20s --seed 2"))
    assert default_nemeses.shows("single", run)
    assert not default_nemeses.shows("late-disk", run)
