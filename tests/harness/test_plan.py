"""Plans are data: read with every mistake told, written back exact."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.durations import duration_ns, duration_text
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import Fault
from holdfast.harness.plans.plan import Known, Plan, parse, parse_nemesis, to_toml

KNOWN = Known(
    systems=("reference", "redis"),
    backends=("local", "docker"),
    workloads=("critical-section",),
    nemeses=("partition", "pause", "clock"),
    resources=("fenced", "unfenced"),
    swarm_backend="sim",
)


def test_three_mistakes_are_three_lines() -> None:
    table = {
        "system": "reference",
        "workload": "critical-sektion",
        "lease": "2",
        "nemesis": [{"name": "clokc"}],
    }
    with pytest.raises(UsageError) as caught:
        parse(table, KNOWN)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert "did you mean 'critical-section'?" in lines[0]
    assert "invalid duration '2'" in lines[1]
    assert "did you mean 'clock'?" in lines[2]


def test_an_unknown_key_is_told_with_its_neighbour() -> None:
    with pytest.raises(UsageError, match=r"unknown key 'sytem'; did you mean 'system'"):
        parse({"sytem": "redis", "system": "redis"}, KNOWN)


def test_a_wrong_type_is_told() -> None:
    with pytest.raises(UsageError, match=r"invalid clients = 'many': expected a whole number"):
        parse({"system": "redis", "clients": "many"}, KNOWN)


def test_a_plan_written_out_reads_back_the_same() -> None:
    fault = Fault(
        id="f1",
        do="pause",
        target="holder",
        at_ns=1_260_891_696,
        for_ns=3 * SECOND,
        params={"shape": 'it\'s "quoted"'},
    )
    plan = Plan(
        system="redis",
        resource="unfenced",
        seed=7,
        options={"persistence": "stock"},
        nemeses=(("pause", {"target": "holder", "for": "3s"}),),
        faults=(fault, replace(fault, id="f2", when="release:sent", within_ns=SECOND)),
    )
    assert parse(tomllib.loads(to_toml(plan, exact=False)), KNOWN) == plan
    exact = parse(tomllib.loads(to_toml(plan, exact=True)), KNOWN)
    assert exact.faults == plan.faults
    assert exact.nemeses == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("partition,kill", [("partition", {}), ("kill", {})]),
        (
            "pause:target=holder,for=3s,clock",
            [("pause", {"target": "holder", "for": "3s"}), ("clock", {})],
        ),
        ("clock:step=-5s", [("clock", {"step": "-5s"})]),
        ("none", []),
        ("none,kill", [("none", {}), ("kill", {})]),
        (
            "syscall:target=holder,call=send:resource,act=freeze,kill",
            [
                ("syscall", {"target": "holder", "call": "send:resource", "act": "freeze"}),
                ("kill", {}),
            ],
        ),
    ],
)
def test_a_nemesis_option_belongs_to_the_name_before_it(
    text: str, found: list[tuple[str, dict[str, str]]]
) -> None:
    assert parse_nemesis(text) == found


@pytest.mark.parametrize("text", ["", "pause:holder", ",", "a b", "=3"])
def test_a_nemesis_without_a_name_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--nemesis"):
        parse_nemesis(text)


@pytest.mark.parametrize(
    ("text", "ns"), [("5s", 5 * SECOND), ("1.5s", 1_500_000_000), ("-2m", -120 * SECOND)]
)
def test_spans_of_time_read_and_write(text: str, ns: int) -> None:
    assert duration_ns(text) == ns
    assert duration_ns(duration_text(ns)) == ns


@pytest.mark.parametrize("text", ["5", "s", "5 sec", "", "1e3s", "nan s"])
def test_what_is_no_span_of_time_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="invalid duration '"):
        duration_ns(text)
