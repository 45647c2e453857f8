"""The edges of gates, baselines and campaign files: exact limits and the sentences of problems."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.campaigns import baseline as baselines
from holdfast.harness.campaigns import gate
from holdfast.harness.campaigns.baseline import Baseline, KnownIssue
from holdfast.harness.campaigns.gate import Rules, alone, judge, rules, table
from holdfast.harness.campaigns.results import Outcome, Result
from holdfast.harness.campaigns.spec import CampaignSpec
from holdfast.harness.campaigns.spec import read as read_campaign
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.plans.plan import Known as KnownNames

TODAY = date(2027, 1, 31)
MUTEX = "mutual-exclusion"
CELL = "mine / local / critical-section / pause"


def run(seed: int = 1, verdict: Verdict = Verdict.HOLDS, **rest: Any) -> Result:
    one = Outcome(verdict=verdict, promised=True, reason="idle", sentence="two held")
    made = Result(
        key=f"k{seed}", system="mine", backend="local", workload="critical-section",
        nemesis="pause", seed=seed, verdict=str(verdict), exit_code=0, command=f"run {seed}",
        properties={MUTEX: one}, run=f"runs/{seed}",
    )  # fmt: skip
    return replace(made, **rest)


def sentences(
    results: Sequence[Result], baseline: Baseline | None = None, **given: Any
) -> list[str]:
    found = judge(results, baseline or Baseline(), Rules(**{"slower": {}, **given}), TODAY)
    return [f"{one.code} {one.kind}: {one.sentence}" for one in found]


def test_a_problem_is_told_with_its_run_and_command() -> None:
    troubles = alone([run(2, Verdict.VIOLATED)], (), TODAY)
    told = table(troubles, [run(2, Verdict.VIOLATED)])
    assert (told["exit_code"], told["outcome"], told["runs"]) == (1, "FAILED", 1)
    assert told["troubles"] == [
        {"code": 1, "kind": "violation", "cell": CELL, "property": MUTEX, "run": "runs/2",
         "sentence": "violated in 1 of 1 runs, first with seed 2: two held", "command": "run 2",
         "exercise": ""},
    ]  # fmt: skip
    empty: Any = table(alone([], (), TODAY), [])
    (nothing,) = empty["troubles"]
    assert (nothing["run"], nothing["command"], nothing["kind"]) == ("", "", "no-runs")


def test_a_run_that_failed_without_a_reason_says_so() -> None:
    assert sentences([run(exit_code=4, properties={})]) == [
        "4 environment: seed 1 could not be executed: no reason recorded"
    ]
    assert sentences([run(exit_code=4, properties={}, problems=("no engine", "x"))]) == [
        "4 environment: seed 1 could not be executed: no engine"
    ]
    assert sentences([run(problems=("torn",))]) == ["3 incomplete: seed 1 is incomplete: torn"]


@pytest.mark.parametrize(
    ("edges", "kinds"),
    [
        ((0.010, 0.5), ["3"]), ((0.0101, 0.5), ["1"]), ((0.001, 0.010), ["0"]),
        ((0.001, 0.0101), ["3"]),
    ],
)  # fmt: skip
def test_the_allowed_rate_of_duplicates_is_itself_allowed(
    edges: tuple[float, float], kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "clopper_pearson", lambda events, runs: edges)
    wasteful = run(purpose="efficiency", duplicates=3, grants=100)
    assert [one[0] for one in sentences([wasteful], duplicates=1.0)] == kinds
    other = replace(wasteful, system="other")
    assert [one[0] for one in sentences([wasteful, other], duplicates=1.0)] == 2 * kinds


def test_coverage_of_half_of_the_baseline_is_not_lost_and_of_more_is() -> None:
    now = [run(verdict=Verdict.UNKNOWN)]
    half = Baseline(exercised={(CELL, MUTEX): (2, 4)})
    more = Baseline(exercised={(CELL, MUTEX): (3, 4)})
    assert [one for one in sentences(now, half) if "lost" in one] == []
    assert [one for one in sentences(now, more) if "lost" in one] == [
        "3 lost-exercise: tested in 3 of 4 runs of the baseline, now in 0 of 1: idle"
    ]


def test_a_measure_may_worsen_by_the_given_percentage_and_no_more() -> None:
    old = Baseline(measures={(CELL, "p99"): [100e6, 100e6, 100e6]})
    for worse, found in ((125e6, []), (126e6, ["1"]), (80e6, [])):
        now = [run(n, measures={"p99": worse}) for n in range(3)]
        assert [one[0] for one in sentences(now, old, slower={"p99": 25.0})] == found
    (said,) = sentences(
        [run(n, measures={"p99": 200e6}) for n in range(3)], old, slower={"p99": 25.0}
    )
    assert said == (
        "1 slower: p99: median 200.0 ms, in the baseline 100.0 ms (3 and 3 runs, p = 0.05):"
        " acquire latency p99"
    )
    rates = Baseline(measures={(CELL, "ops"): [100.0, 100.0, 100.0]})
    for value, found in ((80.0, []), (79.0, ["1"]), (0.0, ["1"])):
        now = [run(n, measures={"ops": value}) for n in range(3)]
        assert [one[0] for one in sentences(now, rates, slower={"ops": 25.0})] == found
    assert sentences([run()], slower={"ops": 25.0}) == [], "nothing to compare on either side"


def test_a_limit_is_suppressed_by_a_known_issue_of_its_property_only() -> None:
    limit = Outcome(verdict=Verdict.VIOLATED, promised=False, sentence="two held")
    results = [run(properties={MUTEX: limit}), run(2, properties={MUTEX: limit})]
    for prop, code in ((MUTEX, "0"), ("ownership", "1")):
        known = KnownIssue(system="mine", property=prop, reason="x", expires=TODAY)
        found = sentences(results, Baseline(known=[known]), limits=True)
        assert f"{code} limit: violated, never promised: two held" in found
        assert sum("limit" in one for one in found) == 1


def test_rules_have_exact_forms() -> None:
    assert rules(["duplicates:0.5%, limits"]) == Rules(slower={}, limits=True, duplicates=0.5)
    for wrong in ("p99", "p99:5", "p99:-5%", "duplicates", "ops:1.%", ""):
        with pytest.raises(UsageError, match="--fail-on"):
            rules([wrong])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema = 3", "unsupported schema 3: expected 'holdfast-baseline/1'"),
        ("[cell", "not TOML: "),
        ("cell = 3", "invalid cell: expected a list of tables [[cell]]"),
        ("cell = [3]", "invalid cell: expected a list of tables [[cell]]"),
        ("[[cell]]\ncel = 1", "cell 1: unknown key 'cel'; did you mean 'cell'?"),
        ("[[measure]]\n[[measure]]\nx = 1", "measure 2: unknown key 'x'"),
        ("[[cell]]\ncell = 'a'", "missing or invalid value: "),
        ("[[known]]\nsystem = ' '\nproperty = 'ownership'\nreason = 'x'\nexpires = 2027-01-31",
         "known 1: missing system: a suppression has system, property, reason and expires"),
        ("[[known]]\nsystem = 'a'\nproperty = 'ownership'\nreason = 'x'\n"
         "expires = 2027-01-31T10:00:00", "known 1: invalid expires = datetime."),
    ],
)  # fmt: skip
def test_a_mistake_in_a_baseline_is_told(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "b.toml"
    head = "" if "schema" in text else 'schema = "holdfast-baseline/1"\n'
    path.write_text(head + text)
    with pytest.raises(UsageError) as told:
        baselines.read(path)
    (problem,) = told.value.problems
    assert problem.startswith(f"{path}: {said}")


def test_a_folder_is_no_baseline_and_a_day_may_be_a_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        baselines.read(tmp_path)
    path = tmp_path / "b.toml"
    known = "system = 'a'\nproperty = 'ownership'\nreason = 'x'\nexpires = '2027-01-31'\n"
    path.write_text(f'schema = "holdfast-baseline/1"\n[[known]]\n{known}')
    (found,) = baselines.read(path).known
    assert (found.expires, found.cell) == (TODAY, "")


def test_a_baseline_counts_executed_runs_and_known_measures_only() -> None:
    results = [
        run(measures={"p50": 1.0, "mine": 2.0}),
        run(2, Verdict.UNKNOWN),
        run(3, exit_code=4),
    ]
    made = baselines.of_results(results, ())
    assert made.exercised == {(CELL, MUTEX): (1, 2)}
    assert made.measures == {(CELL, "p50"): [1.0], (CELL, "mine"): [2.0]}
    text = baselines.to_toml(made)
    assert "p50" in text and '"mine"' not in text and "[[known]]" not in text


KNOWN = KnownNames(
    systems=("redis",), backends=("local", "sim"), workloads=("try-lock", "critical-section"),
    nemeses=("pause",), resources=("fenced",), swarm_backend="sim",
)  # fmt: skip


def campaign(text: str) -> CampaignSpec:
    def stage(name: str, over: Mapping[str, Any], workloads: Sequence[str]) -> Mapping[str, Any]:
        return over

    return read_campaign(tomllib.loads(text), KNOWN, "n.toml", "night", stage)


BASE = 'systems = ["redis"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BASE + 'schema = "x"', "unsupported schema 'x': expected 'holdfast-campaign/1'"),
        (BASE + "entry = 3", "invalid entry: expected a list of tables [[entry]]"),
        (BASE + "entry = [3]", "invalid entry: expected a list of tables [[entry]]"),
        (BASE + "entry = []", "no runs: name at least one system"),
        (BASE + "budget = 3", "invalid budget: expected a table [budget]"),
        (BASE + "[budget]\nruns = -1", "budget: invalid runs or time: expected >= 0"),
        (BASE + "[budget]\nruns = true", "budget: invalid runs or time: expected >= 0"),
        (BASE + '[budget]\ntime = "-1s"', "budget: invalid runs or time: expected >= 0"),
        (BASE + "swarm = 3", "invalid swarm = 3: expected true or false"),
        (BASE + "[[entry]]\nzzz = 1", "entry 1: unknown key 'zzz'"),
        (BASE + "seeds = []", "invalid seeds = []: expected a number >= 1 or a list of seeds"),
        (BASE + "seeds = [-1]", "invalid seeds = [-1]: expected"),
        (BASE + "first_seed = -1", "invalid first_seed = -1: expected a whole number >= 0"),
        (BASE + "seeds = [1]\nfirst_seed = 1", "first_seed has no effect with a list of seeds"),
        ('systems = "redis"',
         'invalid systems: expected a list of names, as in systems = ["redis"]'),
        (BASE + "workloads = [3]",
         'invalid workloads: expected a list of names, as in workloads = ["try-lock"]'),
    ],
)  # fmt: skip
def test_a_mistake_in_a_campaign_is_told_once(text: str, said: str) -> None:
    with pytest.raises(UsageError) as told:
        campaign(text)
    assert told.value.problems[0].startswith(f"n.toml: {said}")
    assert len(set(told.value.problems)) == len(told.value.problems)


def test_a_campaign_has_a_name_a_budget_and_seeds_without_repeats() -> None:
    found = campaign(BASE + 'seeds = [3, 0, 3]\nnemeses = ["none", "none"]\n[budget]\nruns = 0')
    assert (found.name, found.size, found.runs, found.time_ns) == ("night", 2, 0, 0)
    assert [job.plan.seed for job in found.jobs("1")] == [3, 0]
    assert campaign(BASE + 'name = "x"').name == "x"
    swarm = campaign(BASE + "swarm = true").cells[0]
    assert swarm.says == "redis / sim / swarm"


def test_cells_with_fewer_seeds_end_earlier() -> None:
    found = campaign(BASE + '[[entry]]\nseeds = 1\n[[entry]]\nseeds = 3\nworkloads = ["try-lock"]')
    assert [(job.cell, job.plan.seed) for job in found.jobs("1")] == [
        (0, 1),
        (1, 1),
        (1, 2),
        (1, 3),
    ]
