"""Plans: each mistake of a table in its own words, and random plans written and read back."""

from __future__ import annotations

import random
import string
import tomllib
from dataclasses import replace
from typing import Any

import pytest

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import Fault
from holdfast.harness.plans import plan as plan_module
from holdfast.harness.plans.plan import (
    Known,
    Plan,
    lock_names,
    parse,
    parse_nemesis,
    suggest,
    to_toml,
)
from holdfast.harness.properties import PROPERTIES
from holdfast.planning.checks import wrong_names

KNOWN = Known(
    systems=("reference", "redis"),
    backends=("local", "docker"),
    workloads=("critical-section", "try-lock"),
    nemeses=("partition", "pause"),
    resources=("fenced", "unfenced"),
    swarm_backend="sim",
    checkers=("no-red",),
)
FAULT = {"do": "pause", "at": "1s", "for": "2s"}
DURATION = 'a duration in quotes, like "300ms", "5s" or "2m"'


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "x"}, "plan: schema: unsupported schema 'x': expected 'holdfast-plan/1'"),
        ({"schema": 1}, "plan: invalid schema = 1: expected a string"),
        ({"system": 3}, "plan: invalid system = 3: expected a string"),
        ({"system": "mine"}, "plan: system: unknown system 'mine' (known: redis, reference)"),
        ({"system": "mine.py"}, "plan: system: unknown system 'mine.py': your own system is"
         " FILE.py:CLASS or FILE.toml, like mylock.py:MyLock"),
        ({"backend": "dokcer"}, "plan: backend: unknown backend 'dokcer'; did you mean 'docker'?"
         " (known: docker, local)"),
        ({"workload": "a:b"}, "plan: workload: unknown workload 'a:b': your own workload is"
         " FILE.py:NAME, like mine.py:Mine"),
        ({"resource": "x"}, "plan: resource: unknown resource 'x' (known: fenced, unfenced)"),
        ({"seed": -1}, "plan: seed: invalid number -1: expected >= 0"),
        ({"seed": True}, "plan: invalid seed = True: expected a whole number"),
        ({"nodes": 0}, "plan: nodes: invalid number 0: expected >= 1"),
        ({"clients": 0}, "plan: clients: invalid number 0: expected >= 1"),
        ({"locks": 0}, "plan: locks: invalid number 0: expected >= 1"),
        ({"time": 3}, f"plan: invalid time = 3: expected {DURATION}"),
        ({"time": "0s"}, "plan: time: invalid duration '0s': expected > 0"),
        ({"lease": False}, f"plan: invalid lease = False: expected {DURATION}"),
        ({"options": []}, "plan: invalid options = []: expected a table"),
        ({"nemesis": {}}, "plan: invalid nemesis = {}: expected a list"),
        ({"nemesis": [{}]}, 'plan: nemesis: nemesis 1: missing name, as in name = "partition"'),
        ({"nemesis": ["pause"]},
         'plan: nemesis: nemesis 1: missing name, as in name = "partition"'),
        ({"nemesis": [{"name": "pause"}, {"name": "zap"}]},
         "plan: nemesis: nemesis 2: unknown nemesis 'zap' (known: partition, pause)"),
        ({"fault": [{}]}, "plan: fault: fault 1 (f1): missing"
         ' do = "partition", at = "4s", for = "3s"'),
        ({"fault": [7]}, "plan: fault: fault 1 (f1): missing"
         ' do = "partition", at = "4s", for = "3s"'),
        ({"fault": [FAULT, {"id": "x", "at": "1s", "for": "1s"}]},
         'plan: fault: fault 2 (x): missing do = "partition"'),
        ({"fault": [{**FAULT, "do": "zap"}]},
         "plan: fault: fault 1 (f1): unknown nemesis 'zap' (known: partition, pause)"),
        ({"fault": [{**FAULT, "for": "3"}]}, "plan: fault: fault 1 (f1): invalid duration '3':"
         " expected a number with a unit, like 300ms, 5s, 2m or 8h"),
        ({"must": ["ownershp"]}, "plan: must: unknown property 'ownershp'; did you mean"
         f" 'ownership'? (known: {', '.join(sorted(PROPERTIES))})"),
        ({"checkers": ["x"]}, "plan: checkers: unknown checker 'x' (known: no-red)"),
        ({"checkers": ["x.py"]}, "plan: checkers: unknown checker 'x.py': your own checker is"
         " FILE.py:NAME, like mine.py:check"),
        ({"zzz": 1}, "plan: unknown key 'zzz' (known: "),
    ],
)  # fmt: skip
def test_a_mistake_is_told_in_one_line(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as told:
        parse({"system": "redis", **change}, KNOWN)
    assert len(told.value.problems) == 1
    assert told.value.problems[0][: len(said)] == said


def test_a_plan_without_a_system_is_told_the_systems_and_its_place() -> None:
    with pytest.raises(UsageError) as told:
        parse({}, KNOWN, "night.toml")
    assert told.value.problems == ("night.toml: missing system: one of redis, reference",)


def test_all_faults_and_nemeses_that_are_wrong_are_told_a_line_each() -> None:
    wrong = {**FAULT, "do": "zap"}
    table = {"system": "redis", "fault": [wrong, FAULT, wrong], "nemesis": [{}, {}]}
    with pytest.raises(UsageError) as told:
        parse(table, KNOWN)
    assert len(told.value.problems) == 4
    assert parse({"system": "redis", "fault": [FAULT]}, KNOWN).faults[0].target == "one"


def test_files_of_the_user_are_accepted_where_a_name_is() -> None:
    table = {"system": "a/mine.py:Lock", "workload": "w.py:W", "checkers": ["c.py:c", "c.py:c"],
             "nemesis": [{"name": "n.py:N"}], "fault": [{**FAULT, "do": "n.py:N"}]}  # fmt: skip
    found = parse(table, KNOWN)
    assert (found.system, found.workload, found.checkers) == (
        "a/mine.py:Lock",
        "w.py:W",
        ("c.py:c",),
    )
    assert parse({"system": "mine.toml"}, KNOWN).system == "mine.toml"
    assert parse_nemesis("pause,n.py:N,m.py:M:target=c1,for=3s,pause") == [
        ("pause", {}), ("n.py:N", {}), ("m.py:M", {"target": "c1", "for": "3s"}), ("pause", {}),
    ]  # fmt: skip


def test_truths_and_numbers_of_options_are_texts() -> None:
    table = {"system": "redis", "options": {"a": True, "b": 3, "c": False, "d": "X"}}
    assert parse(table, KNOWN).options == {"a": "true", "b": "3", "c": "false", "d": "X"}


def test_many_known_names_are_listed_by_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"name-{n}" for n in range(plan_module.MOST_NAMES)]
    assert suggest("zzzzz", names, "mutant").endswith(f"(known: {', '.join(sorted(names))})")
    names.append("more")
    said = "unknown mutant 'mor'; did you mean 'more'? (holdfast list mutants has all 25)"
    assert suggest("mor", names, "mutant") == said
    assert "known: " in suggest("zzzzz", names, "key")
    assert "did you mean 'name-1.py'" in suggest("name-1.pi", ["name-1.py"], "system")


def test_locks_are_numbered_and_those_of_hierarchies_are_roots() -> None:
    assert lock_names(Plan(system="redis", locks=3)) == ["lock-1", "lock-2", "lock-3"]
    assert lock_names(Plan(system="redis", workload="hierarchy")) == ["/lock-1"]


def test_locks_have_the_names_that_are_given_as_many_as_there_are_locks() -> None:
    given = {"lock_names": "orders/eu+orders-us+x"}
    two = Plan(system="redis", locks=2, options=given)
    assert lock_names(two) == ["orders/eu", "orders-us"]
    assert lock_names(replace(two, workload="hierarchy")) == ["/orders/eu", "/orders-us"]
    assert wrong_names(two) == wrong_names(replace(two, locks=3)) == []
    assert wrong_names(replace(two, locks=4)) == ["option lock_names has 3 of 4 names (--locks 4)"]


@pytest.mark.parametrize("names", ["", "a+", "a+a", "/a", "b+/a", "a\n", f"{'a' * 201}"])
def test_names_that_no_lock_can_have_are_refused(names: str) -> None:
    (problem,) = wrong_names(Plan(system="redis", options={"lock_names": names}))
    assert "expected different names" in problem


def test_random_plans_are_read_as_they_were_written() -> None:
    rng = random.Random(4)

    def word() -> str:
        return "".join(rng.choices(string.printable + "é\U0001f512", k=rng.randrange(1, 8)))

    def table() -> dict[str, str]:
        return {word(): word() for _ in range(rng.randrange(3))}

    for _ in range(100):
        faults = [
            Fault(id=f"x{n}", do=rng.choice(["pause", "n.py:N"]), target=word(),
                  at_ns=rng.randrange(10**10), for_ns=rng.randrange(10**10), params=table())
            for n in range(rng.randrange(3))
        ]  # fmt: skip
        plan = Plan(
            system=rng.choice(["redis", "mine.py:Lock"]),
            backend=rng.choice(["local", "docker"]),
            workload=rng.choice(["try-lock", "w.py:W"]),
            resource=rng.choice(["fenced", "unfenced"]),
            seed=rng.choice([0, 7, 2**40]),
            time_ns=rng.randrange(1, 10**11),
            lease_ns=rng.randrange(1, 10**11),
            nodes=rng.randrange(1, 9),
            clients=rng.randrange(1, 9),
            locks=rng.randrange(1, 9),
            options=table(),
            nemeses=tuple(("pause", table()) for _ in range(rng.randrange(3))),
            faults=tuple(faults),
            must=tuple(rng.sample(sorted(PROPERTIES), rng.randrange(3))),
            require=tuple(rng.sample(sorted(PROPERTIES), rng.randrange(3))),
            checkers=tuple(rng.sample(["no-red", "c.py:c"], rng.randrange(3))),
        )
        assert parse(tomllib.loads(to_toml(plan, exact=False)), KNOWN) == plan
