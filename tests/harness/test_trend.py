"""The trend of a cell: what is first, what is flaky, and no rate from runs that prove nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.harness.campaigns.results import Result
from holdfast.harness.campaigns.trend import CellTrend, state_of, trends
from tests.reports.test_matrix import run

RUNS = {
    "x": run("x", exit_code=1),
    "+": run("+"),
    "l": run("x", promised=False),
    "?": run("?", exit_code=3),
    "!": run("?", exit_code=4),
}


def trend(runs: str, seeds: str = "") -> CellTrend:
    """The trend of one cell: a letter per run, and a seed per run."""
    made: list[tuple[Result, str, float]] = [
        (replace(RUNS[letter], seed=int(seeds[n]) if seeds else n), f"run-{n}", float(n))
        for n, letter in enumerate(runs)
    ]
    (found,) = trends(made)
    return found


def test_the_state_of_a_run_is_one_word() -> None:
    words = {letter: state_of(result) for letter, result in RUNS.items()}
    assert words == {
        "x": "VIOLATED", "+": "HOLDS", "l": "LIMIT", "?": "UNKNOWN", "!": "ENVIRONMENT",
    }  # fmt: skip


def test_the_first_and_the_last_violation_are_those_in_time() -> None:
    found = trend("++x+x+")
    assert [one.id for one in found.broken] == ["run-2", "run-4"]


@pytest.mark.parametrize(
    ("runs", "flaky"),
    [("++", False), ("xx", False), ("x+", True), ("xl", True), ("x?", False), ("x!", False)],
)
def test_flaky_means_that_conclusive_runs_differ(runs: str, flaky: bool) -> None:
    assert trend(runs).flaky is flaky


def test_a_seed_that_differs_is_named() -> None:
    assert trend("x+x+", "1123").unsteady_seeds == (1,)
    assert trend("x+x?", "1234").unsteady_seeds == ()


def test_runs_that_prove_nothing_do_not_lower_a_rate() -> None:
    assert trend("????").rate == (0.0, 1.0)
    assert trend("+++???!").rate == trend("+++").rate
    low, high = trend("x++").rate
    assert 0 < low < 1 / 3 < high < 1


def test_broken_cells_come_first_and_the_worst_of_them_before_the_others() -> None:
    kinds = {"fine": "++", "often": "xx", "once": "x+", "open": "+?", "none": "!!", "edge": "l+"}
    made = [
        (replace(RUNS[letter], system=name), "", 0.0)
        for name, letters in kinds.items()
        for letter in letters
    ]
    order = [one.cell.partition(" / ")[0] for one in trends(made)]
    assert order == ["often", "once", "none", "open", "edge", "fine"]
