"""Opportunities summed over the runs of a cell: its verdict, its bound, its words."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest

from holdfast.harness.campaigns import gate, results, sums
from holdfast.harness.campaigns.baseline import Baseline
from holdfast.harness.campaigns.results import Outcome, Result
from holdfast.harness.campaigns.stopping import Decided, Lacking
from holdfast.harness.campaigns.summary import summary, tally
from holdfast.harness.campaigns.trend import trends
from holdfast.harness.core.statistics import clopper_pearson, none_in
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.verdicts.left_unknown import Tried
from holdfast.reports.many.matrix import matrix
from holdfast.reports.many.matrix import table as matrix_table
from holdfast.reports.outputs.gate import headline, terminal

HOLDS, UNKNOWN, VIOLATED = Verdict.HOLDS, Verdict.UNKNOWN, Verdict.VIOLATED
MUTEX = "mutual-exclusion"
FORGETS, LEADER = "forgets", "leader"


def run(seed: int, verdict: Verdict | None = None, **counts: int | None) -> Result:
    """A run under kills with so many opportunities of each row; None: not staged."""
    seen = {
        row: Tried(
            count=count or 0,
            sentence=f"{row} shows",
            staged=count is not None,
            nearest="" if count else f"{row}: 0 of {seed}",
        )
        for row, count in counts.items()
    }
    staged = [one for one in seen.values() if one.staged]
    short = not staged or not all(one.count for one in staged)
    told = verdict or (UNKNOWN if short else HOLDS)
    lacks = {"kill": "missing"} if told is UNKNOWN else {}
    one = Outcome(
        verdict=told,
        promised=True,
        reason="missing" if told is UNKNOWN else "",
        under={"kill": told},
        lacks=lacks,
        seen={"kill": seen},
        short=("kill",) if short and told is UNKNOWN else (),
    )
    code = {HOLDS: 0, UNKNOWN: 3, VIOLATED: 1}[told]
    return Result(
        key=f"run-{seed}", system="some", backend="sim", workload="w", nemesis="kill", seed=seed,
        verdict=str(told), exit_code=code, command=f"again {seed}", effective=("kill",),
        properties={MUTEX: one}, remedy=f"holdfast run --seed {seed}" if told is UNKNOWN else "",
    )  # fmt: skip


def under_kill(runs: Sequence[Result]) -> sums.FaultSum:
    return sums.of_properties(runs)[MUTEX].faults["kill"]


def test_each_row_needs_an_opportunity_in_some_run_and_not_in_each() -> None:
    halves = [run(1, forgets=2, leader=0), run(2, forgets=0, leader=1)]
    assert [one.properties[MUTEX].verdict for one in halves] == [UNKNOWN, UNKNOWN]
    assert under_kill(halves).verdict is HOLDS
    assert under_kill(halves[:1]).verdict is UNKNOWN
    (left,) = sums.left_unknown(halves[:1])
    assert (left.properties, left.faults, left.rows) == ((MUTEX,), ("kill",), (LEADER,))
    assert left.cause == "leader: 0 of 1" and left.command == "holdfast run --seed 1"
    assert left.wanted == ("leader shows",)
    assert sums.left_unknown(halves) == ()


def test_a_row_that_one_run_staged_in_vain_is_asked_of_all() -> None:
    """Of a hundred runs that kept it, one shows that the plan is about a leader as well."""
    held = [run(seed, forgets=1, leader=None) for seed in range(1, 100)]
    assert under_kill(held).verdict is HOLDS
    vain = run(100, forgets=1, leader=0)
    assert under_kill([*held, vain]).verdict is UNKNOWN
    (left,) = sums.left_unknown([*held, vain])
    assert left.cause == "leader: 0 of 100", "of the run that staged it"


def test_a_bound_counts_runs_of_the_row_that_the_fewest_had_an_opportunity_of() -> None:
    runs = [run(seed, forgets=9, leader=None) for seed in range(40)]
    runs += [run(100 + seed, forgets=0, leader=1) for seed in range(3)]
    one = under_kill(runs)
    assert (one.bounded, one.tried, one.opportunities) == (3, 43, 40 * 9 + 3)
    (cell,) = matrix_table(matrix(runs))["cells"]
    assert (cell["state"], cell["held"]) == ("open", 3)
    assert cell["says"] == f"0 of 3: below {100 * none_in(3):.0f}%; 363 opportunities"
    assert cell["opportunities"][FORGETS] == {
        "runs": 40, "count": 360, "sentence": "forgets shows",
    }  # fmt: skip


def test_runs_without_opportunity_lower_no_bound_and_hold_no_cell() -> None:
    idle = [run(seed, forgets=0, leader=None) for seed in range(1, 1000)]
    assert under_kill(idle).bounded == 0
    (cell,) = matrix_table(matrix(idle))["cells"]
    assert cell["state"] == "not exercised" and cell["exercise"] == "holdfast run --seed 1"
    (trend,) = trends((one, one.key, 0.0) for one in idle)
    assert trend.rate == (0.0, 1.0)
    caught = run(0, VIOLATED, forgets=1, leader=None)
    assert under_kill([*idle, caught]).judged == 1
    tried = run(5, forgets=1, leader=None)
    (cell,) = matrix_table(matrix([*idle, caught, tried]))["cells"]
    assert (cell["violated"], cell["held"], cell["rate_high"]) == (
        1, 1, clopper_pearson(1, 2)[1],
    )  # fmt: skip


def test_a_run_that_is_unknown_for_another_reason_counts_for_nothing() -> None:
    starved = run(1, forgets=4, leader=4)
    one = starved.properties[MUTEX]
    starved = replace(
        starved,
        properties={MUTEX: replace(one, under={"kill": UNKNOWN}, lacks={"kill": "no CPU time"})},
    )
    torn = replace(run(2, forgets=4, leader=4), problems=("a segment is torn",))
    told = under_kill([starved, torn])
    assert (told.verdict, told.rows, told.bounded) == (UNKNOWN, {}, 0)
    assert sums.left_unknown([starved])[0].cause == "no CPU time"
    # The runs that could not count take nothing from one that does.
    assert under_kill([starved, torn, run(3, forgets=1, leader=None)]).verdict is HOLDS


def test_results_of_earlier_versions_count_as_they_did() -> None:
    old = replace(run(1), properties={MUTEX: Outcome(
        verdict=HOLDS, promised=True, under={"kill": HOLDS})})  # fmt: skip
    assert under_kill([old, old]).bounded == 2
    row = results.table(old)
    for name in ("remedy",):
        del row[name]
    for name in ("seen", "short"):
        del row["properties"][MUTEX][name]
    assert results.read(row, "journal") == replace(old, remedy="")


def test_a_result_is_read_as_it_was_written() -> None:
    one = run(4, forgets=3, leader=0)
    assert results.read(results.table(one), "journal") == one


def test_the_gate_says_each_cause_once_with_the_command_that_answers_it() -> None:
    runs = [run(seed, forgets=1, leader=0) for seed in (3, 4)]
    both = [
        replace(one, properties={**one.properties, "token-order": one.properties[MUTEX]})
        for one in runs
    ]
    troubles = gate.judge(both, Baseline(), gate.NO_RULES, date(2026, 1, 1))
    (one,) = troubles
    assert gate.exit_code(troubles) == gate.INCONCLUSIVE
    assert one.property == "mutual-exclusion, token-order"
    says = "promised, but not tested under kill in any of 2 runs: leader: 0 of 3"
    assert one.sentence == says
    text = terminal(troubles, both)
    assert text.count("leader: 0 of 3") == 1
    assert "to exercise it: holdfast run --seed 3" in text and "again:" not in text
    held = [*both, run(5, forgets=0, leader=2)]
    held = [replace(one, properties={MUTEX: one.properties[MUTEX]}) for one in held]
    assert gate.judge(held, Baseline(), gate.NO_RULES, date(2026, 1, 1)) == []
    assert headline([], held).endswith(
        "; mutual exclusion under kill below 95%, with 1 run that could show it)"
    )


def test_a_cell_of_a_campaign_is_known_by_all_its_runs() -> None:
    (cell,) = tally([run(1, forgets=2, leader=0), run(2, forgets=0, leader=1)])
    assert (cell.exit_code(), cell.word(), cell.unexercised()) == (0, "HOLDS", [])
    (cell,) = tally([run(1, forgets=2, leader=0)])
    assert (cell.word(), cell.unexercised()) == ("UNKNOWN", [MUTEX])
    told = summary("c", 1, [run(1, forgets=2, leader=0)])["cells"][0]
    assert told["left_unknown"][0]["cause"] == "leader: 0 of 1"
    assert told["opportunities"][MUTEX]["kill"][FORGETS]["count"] == 2


def test_a_cell_goes_on_while_opportunities_are_all_that_it_lacks() -> None:
    lacking = Lacking(3)
    lacking.add(0, run(1, forgets=2, leader=0))
    lacking.add(1, run(1, VIOLATED, forgets=1, leader=0))
    other = run(1, UNKNOWN, forgets=1, leader=1)
    lacking.add(2, replace(other, properties={MUTEX: replace(other.properties[MUTEX], short=())}))
    assert [lacking(cell) for cell in range(3)] == [True, False, False]
    lacking.add(0, run(2, forgets=0, leader=1))
    assert not lacking(0)


def test_a_cell_is_decided_by_runs_with_opportunities_of_each_row() -> None:
    decided = Decided([0.05])
    for seed in range(200):
        decided.add(0, run(seed, forgets=1, leader=None))
    assert decided(0)
    decided = Decided([0.05])
    for seed in range(200):
        decided.add(0, run(seed, forgets=1, leader=1 if seed < 20 else None))
    assert not decided(0), "0 of 20 is below 14 %"


@pytest.mark.parametrize("rate", [0.003, 0.02, 0.3, 0.9])
def test_bounds_cover_a_known_rate_in_runs_with_opportunities(rate: float) -> None:
    """Half of the runs have no opportunity, the others cluster: the bound is of the runs that have
    one. 400 campaigns of 60 runs; a bound at 95 % may miss 5 of 100, and 7 by chance."""
    rng = random.Random(7)
    missed = 0
    for _ in range(400):
        runs = []
        for seed in range(60):
            count = rng.choice((0, 0, 1, 40))
            broken = count > 0 and rng.random() < rate
            told = VIOLATED if broken else None
            runs.append(run(seed, told, forgets=count, leader=None))
        one = under_kill(runs)
        low, high = clopper_pearson(one.violated, one.judged)
        missed += not low <= rate <= high
    assert missed <= 28


def test_kills_of_any_servers_hold_no_cell_if_none_struck_those_that_decide() -> None:
    """A lock in the memory of its servers survives the kill of a minority, however often."""
    runs = [run(seed, forgets=None, leader=3) for seed in range(400)]
    (cell,) = matrix_table(matrix(runs))["cells"]
    assert cell["state"] == "held", "the plan struck leaders only"
    asked = []
    for one in runs:
        outcome = one.properties[MUTEX]
        rows = outcome.seen["kill"]
        seen = {"kill": {**rows, FORGETS: replace(rows[FORGETS], asked=True)}}
        asked.append(replace(one, properties={MUTEX: replace(outcome, seen=seen)}))
    (cell,) = matrix_table(matrix(asked))["cells"]
    assert (cell["state"], cell["says"]) == ("not exercised", "0 of 400 runs")
    assert cell["not_exercised_because"] == "forgets: 0 of 0"
