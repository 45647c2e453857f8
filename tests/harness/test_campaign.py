"""Campaign files: every mistake told at once, every run named once, in an order that covers all."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.campaigns.journal import Journal, done
from holdfast.harness.campaigns.results import Result
from holdfast.harness.campaigns.spec import CampaignSpec, read
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import Known

KNOWN = Known(
    systems=("reference", "redis", "majority"),
    backends=("local", "docker", "sim"),
    workloads=("critical-section", "try-lock"),
    nemeses=("partition", "pause"),
    resources=("fenced", "unfenced"),
    swarm_backend="sim",
)


def stage(name: str, over: Mapping[str, Any], workloads: Sequence[str]) -> Mapping[str, Any]:
    """One scenario, of redis with two clients for 8 s, that may run nothing but try-lock."""
    if name != "crash" or workloads not in ([], ["try-lock"]):
        raise UsageError(f"scenario {name!r} with {workloads}")
    file = {"system": "redis", "workload": "try-lock", "time": "8s", "clients": 2}
    fault = {"id": "f1", "do": "pause", "at": "1s", "for": "1s"}
    return {**file, **over, "fault": [fault], "must": ["ownership"]}


def campaign(text: str) -> CampaignSpec:
    return read(tomllib.loads(text), KNOWN, "night.toml", "night", stage)


def refused(text: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        campaign(text)
    return list(caught.value.problems)


def test_every_combination_is_a_cell_and_every_seed_a_run() -> None:
    found = campaign(
        'systems = ["reference", "redis"]\nworkloads = ["critical-section", "try-lock"]\n'
        'nemeses = ["none", "partition,pause:for=2s"]\nseeds = 3\nclients = 4\ntime = "5s"'
    )
    assert (len(found.cells), found.size) == (8, 24)
    assert {cell.plan.clients for cell in found.cells} == {4}
    assert found.cells[1].plan.nemeses == (("partition", {}), ("pause", {"for": "2s"}))
    jobs = list(found.jobs("1"))
    assert len({job.key for job in jobs}) == 24
    assert [job.plan.seed for job in jobs] == [1] * 8 + [2] * 8 + [3] * 8
    assert jobs[1].key.startswith("reference-local-critical-section-partition+pause-1-")


@pytest.mark.parametrize("kind", ['nemeses = ["pause"]', 'scenarios = ["crash"]'])
def test_a_system_has_its_usual_number_of_servers_unless_the_file_says_another(kind: str) -> None:
    (usual,) = campaign(f'systems = ["reference"]\n{kind}').cells
    (given,) = campaign(f'systems = ["reference"]\n{kind}\nnodes = 5').cells
    assert (usual.plan.nodes, given.plan.nodes) == (0, 5)


def test_an_entry_says_otherwise_than_the_file() -> None:
    found = campaign(
        'systems = ["reference"]\ntime = "5s"\nseeds = [4, 9]\n[[entry]]\nbackend = "docker"\n'
        '[[entry]]\nname = "many"\nswarm = true\nseeds = 2\nfirst_seed = 7\n'
        '[budget]\ntime = "2m"\nruns = 3'.replace('time = "5s"\n', "", 1)
    )
    first, many = found.cells
    assert (first.plan.backend, list(first.seeds), first.swarm) == ("docker", [4, 9], False)
    assert (many.plan.backend, list(many.seeds), many.swarm) == ("sim", [7, 8], True)
    assert (found.time_ns, found.runs) == (120 * SECOND, 3)


def test_a_scenario_brings_its_own_plan_and_an_entry_puts_its_values_over_it() -> None:
    found = campaign(
        'time = "3s"\nclients = 9\nworkloads = ["critical-section"]\nnemeses = ["pause"]\n'
        '[[entry]]\nscenarios = ["crash"]\nseeds = 2\n'
        '[[entry]]\nsystems = ["reference", "majority"]\nscenarios = ["crash"]\nclients = 4'
    )
    plans = [cell.plan for cell in found.cells]
    assert [plan.system for plan in plans] == ["redis", "reference", "majority"]
    assert [plan.clients for plan in plans] == [2, 4, 4]
    assert {plan.time_ns for plan in plans} == {8 * SECOND}, "not that of above"
    assert {plan.nemeses for plan in plans} == {()}
    assert {plan.faults[0].do for plan in plans} == {"pause"}
    assert {tuple(plan.must) for plan in plans} == {("ownership",)}
    assert found.cells[0].says == "redis / local / try-lock / scenario crash"
    assert next(found.jobs("1")).key.startswith("redis-local-try-lock-scenario-crash-1-")
    assert found.size == 4


def test_a_scenario_that_the_file_contradicts_is_told() -> None:
    entry = 'scenarios = ["crash", "crsh"]\n'
    (problem,) = refused(entry)
    assert problem == "night.toml: scenario 'crsh' with []"
    text = "\n".join(refused(entry + 'workloads = ["critical-section"]\nnemeses = ["pause"]'))
    assert "scenarios define their own faults" in text
    assert "scenario 'crash' with ['critical-section']" in text
    assert "invalid options or backend: expected a table" in refused(entry + "options = 3")[0]
    assert "swarm samples scenarios" in refused(entry + 'systems = ["redis"]\nswarm = true')[0]
    assert "invalid scenarios: expected a list" in refused("scenarios = 7")[0]


def test_all_mistakes_are_told_at_once_with_suggestions() -> None:
    problems = refused(
        'sytems = ["reference"]\nsystems = ["refrence"]\nnemeses = ["puase"]\n'
        'seeds = 0\nclients = "many"\n[budget]\nrnus = 3\ntime = "soon"'
    )
    text = "\n".join(problems)
    for part in (
        "key 'sytems'", "did you mean 'systems'?",
        "did you mean 'reference'?", "did you mean 'pause'?",
        "invalid seeds = 0: expected", "invalid clients = 'many': expected a whole number",
        "did you mean 'runs'?", "invalid duration 'soon'",
    ):  # fmt: skip
        assert part in text
    assert all(line.startswith("night.toml: ") for line in problems)


def test_a_mistake_in_an_entry_names_the_entry() -> None:
    problems = refused('systems = ["redis"]\n[[entry]]\nname = "slow"\nworkloads = ["try-lok"]')
    assert problems[0].startswith("night.toml: entry slow: workload: unknown workload 'try-lok'")
    assert "missing systems, as in" in refused("seeds = 3")[0]
    assert "remove it" in refused('systems = ["redis"]\nswarm = true\ntime = "3s"')[0]


def test_the_key_of_a_run_changes_with_anything_that_changes_the_run() -> None:
    base = 'systems = ["redis"]\nseeds = [7]\n'
    keys = [
        next(campaign(base + more).jobs(version)).key
        for more, version in itertools.product(
            ("", "clients = 3", 'lease = "1s"', 'options = {persistence = "none"}', "nodes = 3"),
            ("1", "2"),
        )
    ]
    assert len(set(keys)) == 10


def result(key: str, exit_code: int = 0) -> Result:
    return Result(
        key=key, system="redis", backend="sim", workload="try-lock", nemesis="none", seed=1,
        verdict="HOLDS", exit_code=exit_code, command="holdfast run",
    )  # fmt: skip


def test_a_torn_line_is_cut_off_and_the_rest_counts(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.add([result("a"), result("b")])
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with Journal(path) as journal:
        journal.add([result("c")])
    assert list(done(path)) == ["a", "c"]


def test_a_run_that_failed_counts_once_it_was_carried_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.add([result("a", 4), result("a", 1), result("a", 0)])
    assert done(path)["a"].exit_code == 1


def test_a_second_campaign_is_kept_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with (
        Journal(path),
        pytest.raises(UsageError, match="in use by a running campaign"),
        Journal(path),
    ):
        pass


def test_cells_stop_below_a_rate_which_entries_may_set_and_refuse() -> None:
    found = campaign(
        'stop_below = "1%"\n[[entry]]\nsystems = ["reference"]\n'
        '[[entry]]\nsystems = ["redis"]\nstop_below = "2.5 %"\n'
        '[[entry]]\nsystems = ["redis"]\nstop_below = 0\n'
        '[[entry]]\nscenarios = ["crash"]\n[[entry]]\nswarm = true\nsystems = ["reference"]'
    )
    assert [cell.stop_below for cell in found.cells] == [0.01, 0.025, 0.0, 0.01, 0.01]


@pytest.mark.parametrize("value", ["true", '"1"', '"0%"', '"100%"', '"-1%"', "0.01", '"1%%"', "[]"])
def test_a_rate_to_stop_below_is_a_percentage(value: str) -> None:
    (problem,) = refused(f'systems = ["reference"]\nstop_below = {value}')
    assert 'expected a rate, as in stop_below = "1%"' in problem
