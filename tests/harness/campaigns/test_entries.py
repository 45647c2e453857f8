"""Entries of a campaign file: which values reach which runs, in which order, under which keys."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from holdfast.harness.campaigns.spec import DRAWN, PLAN_KEYS, CampaignSpec, read
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.plans.plan import Known

KNOWN = Known(
    systems=("redis", "etcd"), backends=("local", "sim"),
    workloads=("critical-section", "try-lock"), nemeses=("pause", "kill"),
    resources=("fenced", "unfenced"), swarm_backend="sim", checkers=("no-red",),
)  # fmt: skip
SEEN = dict[str, Any]


def campaign(text: str, seen: list[SEEN] | None = None) -> CampaignSpec:
    def stage(name: str, over: Mapping[str, Any], workloads: Sequence[str]) -> Mapping[str, Any]:
        if seen is not None:
            seen.append({"name": name, "over": dict(over), "workloads": list(workloads)})
        return {"system": "redis", **over}

    return read(tomllib.loads(text), KNOWN, "n.toml", "night", stage)


def refused(text: str) -> tuple[str, ...]:
    with pytest.raises(UsageError) as told:
        campaign(text)
    return told.value.problems


VALUES = {
    "backend": '"sim"', "resource": '"unfenced"', "time": '"7s"', "lease": '"3s"', "nodes": "4",
    "clients": "6", "locks": "2", "checkers": '["no-red"]', "require": '["ownership"]',
    "options": '{queue = "fifo"}',
}  # fmt: skip


@pytest.mark.parametrize("key", PLAN_KEYS)
def test_a_value_above_all_entries_reaches_each_unless_the_entry_has_its_own(key: str) -> None:
    usual = campaign('systems = ["redis"]').cells[0].plan
    above = f'systems = ["redis"]\n{key} = {VALUES[key]}\n'
    entries = '[[entry]]\nworkloads = ["try-lock"]\n[[entry]]\nworkloads = ["critical-section"]\n'
    name = {"time": "time_ns", "lease": "lease_ns"}.get(key, key)
    plans = [cell.plan for cell in campaign(above + entries).cells]
    assert getattr(plans[0], name) == getattr(plans[1], name) != getattr(usual, name)
    other = {"backend": '"local"', "resource": '"fenced"', "time": '"1s"', "lease": '"1s"',
             "checkers": "[]", "require": "[]", "options": "{}"}.get(key, "1")  # fmt: skip
    mixed = campaign(f"{above}{entries}{key} = {other}\n").cells
    assert getattr(mixed[0].plan, name) == getattr(plans[0], name)
    assert getattr(mixed[1].plan, name) != getattr(plans[0], name)


@pytest.mark.parametrize("key", [key for key in DRAWN if key in VALUES])
def test_what_a_swarm_samples_may_not_be_given(key: str) -> None:
    text = f'systems = ["redis"]\nswarm = true\n{key} = {VALUES[key]}'
    if key == "backend":
        assert campaign(text).cells[0].plan.backend == "sim", "the one that swarms run on"
        text = text.replace("sim", "local")
    (problem,) = refused(text)
    assert problem == f"n.toml: swarm samples {key} from the seed; remove it"


def test_the_cells_of_an_entry_are_the_product_of_its_lists_in_order() -> None:
    lists = {"systems": ["redis", "etcd"], "workloads": ["try-lock", "critical-section"],
             "nemeses": ["kill", "none", "pause,kill"]}  # fmt: skip
    text = "\n".join(f"{name} = {values}" for name, values in lists.items())
    found = campaign(text).cells
    words = itertools.product(*lists.values())
    assert [cell.says for cell in found] == [
        f"{system} / local / {workload} / {'kill+pause' if ',' in nemesis else nemesis}"
        for system, workload, nemesis in words
    ]


def test_a_budget_that_ends_early_has_run_every_cell() -> None:
    text = '[[entry]]\nsystems = ["redis", "etcd"]\nseeds = 3\nfirst_seed = 5\n'
    found = campaign(text + '[[entry]]\nsystems = ["etcd"]\nswarm = true\nseeds = [9, 2]')
    jobs = [(job.cell, job.plan.seed) for job in found.jobs("1")]
    assert jobs == [(0, 5), (1, 5), (2, 9), (0, 6), (1, 6), (2, 2), (0, 7), (1, 7)]
    assert len(jobs) == found.size
    for count in range(3, len(jobs)):
        assert {cell for cell, _ in jobs[:count]} == {0, 1, 2}


def test_a_key_names_one_run_and_is_a_file_name() -> None:
    text = 'systems = ["redis", "a/b c/mine.py:Lock"]\nnemeses = ["none", "pause:target=c1"]\n'
    text += 'workloads = ["try-lock", "w.py:W"]\nseeds = 2\n'
    keys = [job.key for job in campaign(text).jobs("1")]
    assert len(set(keys)) == len(keys) == 16
    assert keys == [job.key for job in campaign(text).jobs("1")], "the same when it is resumed"
    assert set(keys).isdisjoint(job.key for job in campaign(text).jobs("2"))
    assert all(key == key.strip("-.") and "/" not in key and ":" not in key for key in keys)
    assert max(map(len, keys)) <= 80 + len("-1-") + 8
    swarm = campaign('systems = ["redis"]\nswarm = true')
    calm = campaign('systems = ["redis"]\nbackend = "sim"')
    assert next(swarm.jobs("1")).plan == next(calm.jobs("1")).plan
    assert next(swarm.jobs("1")).key.split("-")[-1] != next(calm.jobs("1")).key.split("-")[-1]


def test_a_scenario_gets_what_its_entry_says_and_nothing_of_its_own_from_above() -> None:
    seen: list[SEEN] = []
    found = campaign(
        'time = "5s"\nclients = 4\nbackend = "sim"\noptions = {queue = "fifo"}\n'
        '[[entry]]\nscenarios = ["crash"]\nlocks = 3\nworkloads = ["try-lock"]\n'
        '[[entry]]\nsystems = ["etcd", "redis"]\nscenarios = ["crash", "crash", "pause"]',
        seen,
    )
    usual = {"backend": "sim", "options": {"queue": "fifo"}}
    assert seen == [
        {"name": "crash", "over": {**usual, "locks": 3}, "workloads": ["try-lock"]},
        *({"name": name, "over": {**usual, "system": system}, "workloads": []}
          for system in ("etcd", "redis") for name in ("crash", "pause")),
    ]  # fmt: skip
    assert [cell.plan.scenario for cell in found.cells] == ["crash"] + ["crash", "pause"] * 2
    assert not any(cell.swarm for cell in found.cells)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('systems = ["redis"]\n[budget]\ntime = "soon"',
         "n.toml: budget: time: invalid duration 'soon'"),
        ('systems = ["redis"]\n[[entry]]\nseeds = 0\n[[entry]]\nseeds = 0',
         "n.toml: entry 1: invalid seeds = 0: expected a number >= 1 or a list of seeds"),
        ('systems = ["redis"]\nnemeses = ["pause:x"]',
         "n.toml: --nemesis 'pause:x': expected NAME=VALUE after pause:"),
        ('scenarios = ["crash"]\nsystems = ["rediss"]',
         "n.toml: system: unknown system 'rediss'; did you mean 'redis'?"),
        ("[[entry]]\nworkloads = []", 'n.toml: entry 1: missing systems, as in systems = ["'),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_place(text: str, said: str) -> None:
    found = refused(text)
    assert found[0].startswith(said)
    assert len(found) == len(set(found)) == 1 + ("entry 2" in "".join(found))


def test_a_budget_is_a_time_and_a_number_of_runs() -> None:
    found = campaign('systems = ["redis"]\n[budget]\ntime = "90s"\nruns = 7')
    assert (found.time_ns, found.runs) == (90 * SECOND, 7)
    assert campaign('systems = ["redis"]').runs == campaign('systems = ["redis"]').time_ns == 0
