"""The manifest of a run: what is written is read again; what no run has is refused by name."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import BEFORE
from holdfast.harness.core.verdict import Severity
from holdfast.harness.plans.manifest import RecordedChecker, parsed, to_table
from holdfast.harness.plans.plan import Plan
from holdfast.planning import prepare
from tests.manifests import manifest

OWN = {"mine": RecordedChecker(name="mine.py:mine", severity=Severity.LOW, says="it is mine")}


def table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(to_table(manifest(["ownership"], OWN))))
    return found


def test_what_is_written_is_read_again() -> None:
    plan = Plan(system="majority", backend="sim", nemeses=[("pause", {"for": "1s"})])
    made = prepare.manifest(prepare.prepared(plan), "made", "again")
    assert made.plan.faults and made.traits["pause"].stops
    again = parsed(json.loads(json.dumps(to_table(made))))
    assert to_table(again) == to_table(made)
    assert again.plan.faults[0] == made.plan.faults[0]
    assert again.promises.promised("mutual-exclusion", []) == made.promises.promised(
        "mutual-exclusion", []
    )


def test_what_older_versions_did_not_write_has_its_former_meaning() -> None:
    old = table()
    for name in ("label", "version", "identity", "checkers", "plug_ins", "traits", "peers", "pins"):
        del old[name]
    for name in ("must", "checkers", "require", "scenario"):
        del old["plan"][name]
    del old["options"]["backend"]
    read = parsed(old)
    assert read.traits == BEFORE
    assert read.peers and read.label == "" == read.plan.scenario
    assert to_table(read)["promises"] == table()["promises"]


def test_the_hosts_file_is_a_key_only_where_there_is_one() -> None:
    assert "hosts" not in table()
    assert parsed({**table(), "hosts": {"a": [1]}}).hosts == {"a": [1]}


WRONG: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    (("run",), 7, "run: Expected `str`, got `int`"),
    (("plan", "nodes"), "3", "plan.nodes: Expected `int`, got `str`"),
    (("plan", "nodes"), True, "plan.nodes: Expected `int`, got `bool`"),
    (("plan", "nodes"), 10**30, "invalid nodes 1000000"),
    (("plan", "nodes"), 1001, "invalid nodes 1001: expected 0 to 1000"),
    (("promises", "drift_ppm"), -(10**7), "invalid drift_ppm -10000000: expected -1000000 to"),
    (("promises", "speed"), 1, "unknown promise 'speed'"),
    (("longest_hold_ns",), -1, "invalid longest_hold_ns -1: expected 0 to"),
    (("options", "workload"), {"x": 1}, "options.workload"),
    (("checkers", "mine", "severity"), "odd", "checkers.mine.severity: Invalid enum value 'odd'"),
    (("checkers", "mine"), {"name": "x"}, "'severity' is missing"),
    (("traits",), {"kill": {"kills": "yes"}}, "traits.kill.kills: Expected `bool`, got `str`"),
)


@pytest.mark.parametrize(("way", "value", "said"), WRONG)
def test_a_wrong_value_is_named(way: tuple[str, ...], value: Any, said: str) -> None:
    wrong = copy.deepcopy(table())
    inside = wrong
    for key in way[:-1]:
        inside = inside[key]
    inside[way[-1]] = value
    with pytest.raises(UsageError) as told:
        parsed(wrong)
    assert said in str(told.value)


@pytest.mark.parametrize("name", ["run", "command", "plan", "promises", "asks", "options"])
def test_what_judging_needs_is_not_made_up(name: str) -> None:
    lacking = table()
    del lacking[name]
    with pytest.raises(UsageError, match=f"'{name}' is missing"):
        parsed(lacking)


def test_all_that_a_plan_lacks_is_named_at_once() -> None:
    lacking = table()
    del lacking["plan"]["seed"], lacking["plan"]["faults"]
    with pytest.raises(UsageError) as told:
        parsed(lacking)
    assert len(told.value.problems) == 2
