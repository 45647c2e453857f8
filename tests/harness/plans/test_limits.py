"""Numbers and tables at the edges of what a plan, a manifest and an event accept."""

from __future__ import annotations

import copy
import itertools
import json
import tomllib
from dataclasses import dataclass, fields
from typing import Any

import pytest

from holdfast.harness.core.clock import LARGEST, SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.ports import Fault
from holdfast.harness.history.so_far import EventCounts
from holdfast.harness.plans import events
from holdfast.harness.plans.manifest import MOST, Options, converted, parsed, to_table
from holdfast.harness.plans.plan import Known, Plan, armed, parse, parse_nemesis, suggest, to_toml
from tests.manifests import manifest

KNOWN = Known(
    systems=("redis", "slow"), backends=("local",), workloads=("try-lock", "critical-section"),
    nemeses=("pause", "kill"), resources=("fenced",), swarm_backend="sim",
    lease_of=lambda system: 9 * SECOND if system == "slow" else SECOND,
)  # fmt: skip


def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(to_table(manifest())))
    return found


def problems(table: dict[str, Any]) -> tuple[str, ...]:
    try:
        parsed(table)
    except UsageError as error:
        return error.problems
    return ()


PLAN_NUMBERS = [one.name for one in fields(Plan) if one.type == "int" and one.name != "seed"]


@pytest.mark.parametrize("name", PLAN_NUMBERS)
def test_a_number_of_a_recorded_plan_is_bounded_on_both_sides(name: str) -> None:
    most = MOST.get(name, LARGEST)
    for value, accepted in ((0, True), (most, True), (-1, False), (most + 1, False)):
        table = recorded()
        table["plan"][name] = value
        found = problems(table)
        assert found == (() if accepted else (f"invalid {name} {value}: expected 0 to {most}",))


@pytest.mark.parametrize("name", ["slip_ns", "drift_ppm", "recovery_ns", "minority_ns", "aging"])
def test_a_number_of_a_promise_may_be_negative_within_its_bound(name: str) -> None:
    most = MOST.get(name, LARGEST)
    for value in (-most, most, -most - 1, most + 1):
        table = recorded()
        table["promises"][name] = value
        wrong = f"invalid {name} {str(value)[:40]}: expected -{most} to {most}"
        assert problems(table) == (() if abs(value) <= most else (wrong,))


def test_all_that_is_out_of_range_is_told_at_once() -> None:
    table = recorded()
    table["plan"] |= {"nodes": -1, "locks": 10**50}
    table["promises"] |= {"fast": 1, "safe": 2}
    table["ready_ns"] = -5
    found = problems(table)
    assert sorted(one.split(":")[0] for one in found) == [
        f"invalid locks {str(10**50)[:40]}", "invalid nodes -1", "invalid ready_ns -5",
        "unknown promise 'fast'", "unknown promise 'safe'",
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [-(10**30), 0, 10**30])
def test_a_seed_may_be_any_whole_number(seed: int) -> None:
    table = recorded()
    table["plan"]["seed"] = seed
    table["plan"]["time_ns"] = 7
    if abs(seed) < LARGEST:
        assert parsed(table).plan.seed == seed
    else:
        assert not any("expected 0 to" in one for one in problems(table))


@dataclass(frozen=True, kw_only=True)
class Row:
    number: int


@dataclass(frozen=True, kw_only=True)
class Table:
    rows: dict[str, Row]
    more: list[Row]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"rows": {"a": {"number": 1}, "b": {"number": "x"}}, "more": []},
         "rows.b.number: Expected `int`, got `str`"),
        ({"rows": {"a": 7}, "more": []}, "rows.a: Expected `object`, got `int`"),
        ({"rows": {}, "more": [{"number": 1}, {"number": None}]},
         "more[1].number: Expected `int`, got `null`"),
        ({"rows": {}}, "damaged: 'more' is missing"),
        ({"rows": {"a": {}}, "more": []}, "damaged: 'number' is missing"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_the_key_of_its_row(table: Any, said: str) -> None:
    with pytest.raises(UsageError) as told:
        converted(table, Table)
    assert str(told.value) == said


def test_a_disk_is_given_in_mebibytes() -> None:
    sizes = {"0": 0, "1": 1_048_576, "100": 104_857_600}
    for text, size in sizes.items():
        assert Options(system={}, workload={}, backend={"disk_mib": text}).disk_bytes == size
    assert Options(system={}, workload={}).disk_bytes == 0


def test_a_plan_of_a_system_only_has_the_documented_defaults() -> None:
    found = parse({"system": "slow"}, KNOWN)
    assert (found.backend, found.workload, found.resource) == ("local", "critical-section", "")
    assert (found.seed, found.time_ns, found.lease_ns) == (0, 30 * SECOND, 9 * SECOND)
    assert (found.nodes, found.clients, found.locks) == (3, 5, 1)
    assert parse({"system": "slow", "lease": "1s"}, KNOWN).lease_ns == SECOND
    assert parse({"system": "mine.toml"}, KNOWN).lease_ns == SECOND


@pytest.mark.parametrize("name", ["nodes", "clients", "locks", "seed"])
def test_the_least_number_is_accepted(name: str) -> None:
    least = 0 if name == "seed" else 1
    assert getattr(parse({"system": "redis", name: least}, KNOWN), name) == least
    with pytest.raises(UsageError, match=f"{name}: invalid number {least - 1}: expected >= "):
        parse({"system": "redis", name: least - 1}, KNOWN)


def test_faults_without_an_id_are_numbered_and_keep_their_options_in_order() -> None:
    rows = [
        {"do": "pause", "at": "1s", "for": "2s", "shape": 3, "deep": True},
        {"do": "kill", "at": "-1s", "for": "0s", "id": "mine", "when": "lost", "target": "n1"},
        {"do": "kill", "at": "0s", "for": "1ms"},
    ]
    found = parse({"system": "redis", "fault": rows}, KNOWN).faults
    assert found == (
        Fault(id="f1", do="pause", target="one", at_ns=SECOND, for_ns=2 * SECOND,
              params={"shape": "3", "deep": "true"}),
        Fault(id="mine", do="kill", target="n1", at_ns=-SECOND, for_ns=0, params={},
              when="lost", within_ns=3 * SECOND),
        Fault(id="f3", do="kill", target="one", at_ns=0, for_ns=1_000_000, params={}),
    )  # fmt: skip
    assert [*found[0].params] == ["shape", "deep"]


def test_a_plan_without_servers_or_extras_writes_no_line_for_them() -> None:
    text = to_toml(Plan(system="redis", nodes=0), exact=False)
    assert "nodes" not in text and "seed = 0" in text
    assert not {"must", "require", "checkers", "options", "nemesis", "fault"} & {
        line.partition(" ")[0].strip("[]") for line in text.splitlines()
    }
    odd = Plan(system="redis", options={"a.b": "1", "c d": "2", "e-f_9": "3"})
    told = tomllib.loads(to_toml(odd, exact=True))
    assert told["options"] == {"a.b": "1", "c d": "2", "e-f_9": "3"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"within": "3s"}, "f1: within without when: name the event, as in when=acquire:ok"),
        ({"when": "acquire"}, "f1: unknown event 'acquire'; did you mean 'acquire:ok'?"),
        ({"when": "lost", "within": "0s"}, "f1: within: invalid duration '0s': expected > 0"),
        ({"when": "lost", "within": "-1s"}, "f1: within: invalid duration '-1s': expected > 0"),
    ],
)
def test_a_wrong_event_of_a_fault_is_told_with_its_owner(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as told:
        armed(copy.copy(given), "f1: ")
    assert str(told.value).startswith(said)


def test_each_answer_of_a_call_is_one_event_and_a_wait_is_none_of_them() -> None:
    """Every row of a history is an event of at most one call, and its call was sent."""
    for op, status in itertools.product(Op, Status):
        rows = EventCounts()
        rows.add(op, status, 5)
        seen = [text for text in events.KNOWN if rows.happened(events.event(text)) == (1, 5)]
        calls = {call for call, ops in events.CALLS.items() if op in ops}
        answers = {text for text, outcomes in events.ANSWERS.items() if status in outcomes}
        wanted = [f"{call}:{answer}" for call in calls for answer in answers]
        notices = [name for name, notice in events.NOTICES.items() if notice is op]
        assert seen == wanted + (notices if status is Status.INVOKED else []), (op, status)
    assert events.event("acquire:fail").outcomes == (Status.FAIL, Status.NOT_OWNER)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pause:3s", "--nemesis 'pause:3s': expected NAME=VALUE after pause:"),
        ("pause,", "--nemesis 'pause,': invalid nemesis name '': expected NAME, NAME,NAME or"
         " NAME:OPTION=VALUE,..."),
        ("for=3s,pause", "--nemesis 'for=3s,pause': invalid nemesis name 'for=3s': expected"),
    ],
)  # fmt: skip
def test_a_wrong_nemesis_is_told_with_what_is_accepted(text: str, said: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_nemesis(text)
    assert str(told.value).startswith(said)


def test_a_hint_to_a_file_of_the_user_is_given_where_the_word_looks_like_one() -> None:
    known = ("redis", "etcd")
    for kind, example in (("system", "mylock.py:MyLock"), ("nemesis", "mine.py:MINE")):
        for word in ("a:b", "x.py", "x.toml"):
            assert suggest(word, known, kind).endswith(f"like {example}")
        assert suggest("xyz", known, kind) == f"unknown {kind} 'xyz' (known: etcd, redis)"
    assert suggest("a:b", known, "backend") == "unknown backend 'a:b' (known: etcd, redis)"
