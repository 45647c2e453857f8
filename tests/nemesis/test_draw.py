"""Fault plans drawn from a seed, and the requests that their faults become."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.durations import duration_ns, duration_text
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import Fault, Nemesis
from holdfast.nemesis.agent.links.link_faults import ACTS as LINK_ACTS
from holdfast.nemesis.compose import draw_all
from holdfast.nemesis.kinds import (
    bandwidth,
    black_hole,
    cancel,
    clock,
    cpu_quota,
    delay,
    disk_error,
    disk_full,
    disk_hang,
    disk_slow,
    failpoint,
    fork,
    half_open,
    hang_up,
    kill,
    memory_limit,
    mtu_black_hole,
    neighbour_lost,
    open_files,
    packet_corrupt,
    packet_duplicate,
    packet_loss,
    packet_reorder,
    partition,
    pause,
    power,
    refuse_connections,
    reply_loss,
    reset,
    slow_links,
    stall,
    sync_lie,
    syscall,
    terminate,
    zero_window,
)
from holdfast.nemesis.options import rate_ppm
from tests.nemesis.agent_process import checked
from tests.nemesis.views import view

S = 1_000_000_000
ENTRIES: dict[str, Nemesis] = {
    "partition": partition.NEMESIS,
    "pause": pause.NEMESIS,
    "kill": kill.NEMESIS,
    "clock": clock.NEMESIS,
}
ON_THE_WIRE = [reply_loss, reset, delay, black_hole, hang_up]
CLIENT_SIDE = [*ON_THE_WIRE, cancel, stall, fork]
ON_LINKS = [
    slow_links,
    packet_loss,
    packet_duplicate,
    packet_reorder,
    packet_corrupt,
    bandwidth,
    mtu_black_hole,
    zero_window,
    half_open,
    refuse_connections,
    neighbour_lost,
]
ALL = [(name, {"lease": "2s"}) for name in ENTRIES]


def draw(
    name: str, options: Mapping[str, str] | None = None, seconds: int = 15, seed: int = 1
) -> list[Fault]:
    return list(ENTRIES[name].draw(random.Random(seed), options or {}, seconds * S))


@pytest.mark.parametrize(
    ("text", "ns"),
    [("5s", 5 * S), ("300ms", 300_000_000), ("1.5s", 1_500_000_000), ("-2m", -120 * S), ("7ns", 7)],
)
def test_a_duration_is_read_exactly_and_written_back(text: str, ns: int) -> None:
    assert duration_ns(text) == ns
    assert duration_ns(duration_text(ns)) == ns


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "5sec", "1e3s", "\u0661s"])
def test_what_is_no_duration_is_told_the_form(text: str) -> None:
    with pytest.raises(UsageError, match="expected a number with a unit"):
        duration_ns(text)


@pytest.mark.parametrize(("text", "ppm"), [("1", 0), ("1.5", 500_000), ("0.1", -900_000)])
def test_a_rate_is_parts_per_million_of_speed(text: str, ppm: int) -> None:
    assert rate_ppm(text) == ppm


@pytest.mark.parametrize("text", ["0", "-1", "7", "fast", "1/2"])
def test_a_clock_can_neither_stand_still_nor_race(text: str) -> None:
    with pytest.raises(ValueError, match=r"invalid rate .*: expected 0 to 6"):
        rate_ppm(text)


@pytest.mark.parametrize("text", ["0s", "5001ms", "1m"])
def test_a_server_gets_at_most_five_seconds_to_shut_down(text: str) -> None:
    with pytest.raises(UsageError, match="terminate: option grace: "):
        terminate.NEMESIS.draw(random.Random(1), {"grace": text}, 60 * SECOND)


@pytest.mark.parametrize("name", ENTRIES)
def test_in_fifteen_seconds_every_nemesis_strikes_twice_with_quiet_between(name: str) -> None:
    for seed in range(100):
        faults = draw(name, {"lease": "2s"}, seed=seed)
        assert len(faults) >= 2
        healed = [0, *(fault.at_ns + fault.for_ns for fault in faults)]
        starts = [*(fault.at_ns for fault in faults), 15 * S]
        assert all(start - heal >= 400_000_000 for heal, start in zip(healed, starts, strict=True))


@pytest.mark.parametrize("name", ENTRIES)
def test_one_fault_can_be_asked_for_at_a_time(name: str) -> None:
    for seed in range(5):
        (fault,) = draw(name, {"at": "4s", "for": "3s"}, seed=seed)
        assert (fault.at_ns, fault.for_ns) == (4 * S, 3 * S)
    (fault,) = draw(name, {"at": "0s", "lease": "2s"})
    assert fault.at_ns == 0 and fault.for_ns >= 3 * S
    with pytest.raises(UsageError, match="at is for one fault, every for many"):
        draw(name, {"at": "4s", "every": "5s"})
    with pytest.raises(UsageError, match="at=14s with for=3s: the fault must end within 15s"):
        draw(name, {"at": "14s", "for": "3s"})
    with pytest.raises(UsageError, match="option at"):
        draw(name, {"at": "4"})


def test_faults_at_a_time_are_not_spread() -> None:
    first, second = ("pause", {"at": "4s", "for": "1s"}), ("kill", {"at": "4s", "for": "2s"})
    faults = draw_all([first, second, first], ENTRIES, 1, 15 * S)
    assert [(fault.do, fault.at_ns) for fault in faults] == [
        ("kill", 4 * S), ("pause", 4 * S), ("pause", 4 * S),
    ]  # fmt: skip
    waiting = ("pause", {"at": "4s", "for": "1s", "when": "acquire:ok", "within": "11s"})
    with pytest.raises(UsageError, match="must end within 4s"):
        draw_all([waiting], ENTRIES, 1, 15 * S)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_plan_depends_on_the_seed_alone(name: str) -> None:
    assert draw(name, seed=3) == draw(name, seed=3)
    assert draw(name, seed=3) != draw(name, seed=4)


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("pause", ["holder", "leader|one"]),
        ("kill", ["leader|one", "majority|one", "holder"]),
        ("partition", ["leader|one", "holder", "all"]),
        ("clock", ["leader|one", "holder"]),
    ],
)
def test_the_first_faults_are_the_ones_that_hurt_most(name: str, targets: list[str]) -> None:
    for seed in range(20):
        faults = draw(name, seed=seed)
        assert [fault.target for fault in faults][: len(targets)] == targets


def test_a_paused_holder_outsleeps_its_lease() -> None:
    for lease in ("500ms", "2s", "10s"):
        faults = draw("pause", {"lease": lease}, seconds=120)
        assert {fault.for_ns for fault in faults} == {duration_ns(lease) * 2}


def test_partitions_begin_with_the_leader_then_the_holder_then_halves_then_anything() -> None:
    shapes = [fault.params["shape"] for fault in draw("partition", seconds=300)]
    assert shapes[:3] == ["isolate", "isolate", "halves"]
    assert set(shapes) == set(partition.SHAPES)


def test_options_are_obeyed() -> None:
    faults = draw("pause", {"target": "n1+n2", "every": "2s", "for": "300ms"}, seconds=10)
    assert len(faults) == 5
    assert {(fault.target, fault.for_ns) for fault in faults} == {("n1+n2", 300_000_000)}
    (first, *_) = draw("partition", {"shape": "one-way", "way": "out", "target": "n2"})
    assert (first.target, first.params) == ("n2", {"shape": "one-way", "way": "out"})
    (first, *_) = draw("clock", {"strobe": "50ms", "lease": "4s"})
    assert first.params == {"strobe": "50ms", "step": "10s"}


def test_a_run_too_short_for_a_period_gets_one_fault_that_fits() -> None:
    for seconds in (4, 3, 1):
        (fault,) = draw("kill", {"lease": "2s"}, seconds=seconds)
        assert fault.for_ns <= seconds * SECOND / 3
    assert draw("kill", {"lease": "2s", "for": "3s"}, seconds=3) == [], (
        "a length that was asked for"
    )


def test_kills_may_come_as_often_as_is_asked_for() -> None:
    """Their lengths are drawn to fit the period: no default length has to."""
    for every, n in (("3s", 6), ("2500ms", 8), ("1s", 20)):
        faults = draw("kill", {"lease": "2s", "every": every}, seconds=20)
        assert len(faults) == n
        assert all(fault.for_ns <= duration_ns(every) * 3 // 5 for fault in faults)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("pause", {"fro": "3s"}, "unknown option 'fro'; did you mean 'for'"),
        ("partition", {"shape": "halfs"}, "unknown value 'halfs'; did you mean 'halves'"),
        ("clock", {"rate": "0"}, "option rate: invalid rate '0': expected 0 to 6"),
        ("kill", {"every": "3s", "for": "3s"}, "expected `every` > `for`"),
    ],
)
def test_a_wrong_option_is_named_with_what_was_meant(
    name: str, options: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        draw(name, options)


def test_all_mistakes_of_a_plan_come_at_once() -> None:
    specs = [("pause", {"fro": "3s", "every": "x"}), ("clokc", {}), ("clock", {"step": "1"})]
    with pytest.raises(UsageError) as caught:
        draw_all(specs, ENTRIES, seed=1, span_ns=15 * S)
    assert len(caught.value.problems) == 4
    assert "did you mean 'clock'" in str(caught.value)


def test_a_whole_plan_is_in_time_order_ends_in_time_and_never_bites_as_one() -> None:
    for seed in range(100):
        faults = draw_all(ALL, ENTRIES, seed, 15 * S)
        assert [fault.id for fault in faults] == [f"f{n}" for n in range(1, len(faults) + 1)]
        times = [fault.at_ns for fault in faults]
        assert times == sorted(set(times))
        assert max(fault.at_ns + fault.for_ns for fault in faults) < 15 * S
        assert all(sum(fault.do == name for fault in faults) >= 2 for name in ENTRIES)


def test_leaving_out_the_last_nemesis_leaves_the_others_alone() -> None:
    def bare(specs: list[tuple[str, dict[str, str]]]) -> list[tuple[str, int, str]]:
        faults = draw_all(specs, ENTRIES, 7, 30 * S)
        return [(f.do, f.at_ns, f.target) for f in faults if f.do != "clock"]

    paced = [(name, {**options, "every": "6s"}) for name, options in ALL]
    assert bare(paced) == bare(paced[:-1])


def test_four_nemeses_together_strike_half_as_often_each_as_one_alone() -> None:
    alone = draw_all(ALL[:1], ENTRIES, 7, 60 * S)
    together = draw_all(ALL, ENTRIES, 7, 60 * S)
    assert len(alone) == 12
    assert 20 <= len(together) <= 24


@pytest.mark.parametrize("name", ENTRIES)
def test_every_drawn_fault_becomes_a_request_that_the_agent_takes(name: str) -> None:
    rng = random.Random(5)
    seen = view(servers=5, clients=3)
    for fault in draw(name, seconds=200):
        (request,) = ENTRIES[name].requests(fault, seen, rng)
        _, args = checked({"id": 1, "do": request.do, **request.args})
        assert args["fault"] == fault.id
        assert set(args["nodes"]) <= {node.name for node in seen.nodes}


def test_a_clock_fault_says_how_far_and_how_fast() -> None:
    fault = Fault(
        id="f1",
        do="clock",
        target="n1",
        at_ns=0,
        for_ns=1,
        params={"step": "-1.5s", "rate": "0.5", "strobe": "20ms"},
    )
    (request,) = clock.NEMESIS.requests(fault, view(), random.Random(1))
    assert request.do == "set_clock"
    assert request.args == {
        "fault": "f1",
        "nodes": ["n1"],
        "step_ns": -1_500_000_000,
        "rate_ppm": -500_000,
        "strobe_ns": 20_000_000,
    }


@pytest.mark.parametrize("module", [partition, pause, kill, clock, *CLIENT_SIDE, *ON_LINKS])
def test_every_nemesis_says_what_it_models_needs_and_heals(module: object) -> None:
    text = module.__doc__ or ""
    assert [line for line in text.splitlines() if line in ("Models", "Needs", "Heals")] == [
        "Models",
        "Needs",
        "Heals",
    ]


@pytest.mark.parametrize("module", ON_THE_WIRE)
def test_a_fault_on_the_wire_says_whom_and_how(module: Any) -> None:
    options = {"target": "holder", "count": "3", "by": "40ms", "every": "3s", "for": "1s"}
    fault, *_ = module.NEMESIS.draw(random.Random(1), options, 10 * S)
    (request,) = module.NEMESIS.requests(fault, view(), random.Random(1))
    assert request.do == "disturb"
    assert request.args["nodes"] == ["c2"]
    assert (request.args["count"], request.args["by_ns"]) == (3, 40_000_000)
    assert checked({"do": request.do, **request.args})[1]["what"] == fault.do


@pytest.mark.parametrize("module", [cancel, stall])
def test_a_fault_inside_a_client_is_an_order(module: Any) -> None:
    fault, *_ = module.NEMESIS.draw(random.Random(1), {"after": "20ms"}, 10 * S)
    (request,) = module.NEMESIS.requests(fault, view(), random.Random(1))
    assert request.do == "order"
    assert request.args["after_ns"] == 20_000_000
    assert request.args["for_ns"] == fault.for_ns
    with pytest.raises(UsageError, match="invalid number 'many'"):
        module.NEMESIS.draw(random.Random(1), {"count": "many"}, 10 * S)


def test_a_fork_is_aimed_at_the_holder_and_says_how_the_child_ends() -> None:
    drawn = fork.NEMESIS.draw(random.Random(1), {"how": "close", "every": "3s"}, 10 * S)
    assert {fault.target for fault in drawn} == {"holder"}
    (request,) = fork.NEMESIS.requests(drawn[0], view(), random.Random(1))
    assert (request.do, request.args["how"]) == ("order", "close")
    with pytest.raises(UsageError, match=r"'fall'.*known: exit, close, stay"):
        fork.NEMESIS.draw(random.Random(1), {"how": "fall"}, 10 * S)


def test_a_fault_at_a_call_names_the_addresses_of_its_peers() -> None:
    options = {"call": "send:resource", "act": "delay", "by": "50ms", "count": "0"}
    (fault, *_) = syscall.NEMESIS.draw(random.Random(1), options, 60 * SECOND)
    assert (fault.target, fault.params) == ("holder", options)
    seen = view()
    aimed = replace(fault, target="n1")
    (request,) = syscall.NEMESIS.requests(aimed, seen, random.Random(1))
    assert (request.do, request.args["nodes"], request.args["call"]) == ("syscall", ["n1"], "send")
    assert (request.args["by_ns"], request.args["count"]) == (50_000_000, 0)
    assert request.args["peers"] == [node.address for node in seen.named("resource")]
    on_file = replace(aimed, params={"call": "write:*.aof"})
    (request,) = syscall.NEMESIS.requests(on_file, seen, random.Random(1))
    assert request.args["file"] == "*.aof" and "peers" not in request.args
    assert checked({"id": 1, "do": request.do, **request.args})


def test_the_faults_of_a_sweep_stop_at_one_request_after_the_other() -> None:
    options = {"call": "send:all", "of": "release", "first": "1/2/3", "who": "first"}
    faults = syscall.NEMESIS.draw(random.Random(1), {**options, "every": "5s"}, 25 * SECOND)
    assert [fault.params["first"] for fault in faults] == ["1", "2", "3", "1", "2"]
    aimed = replace(faults[2], target="n1")
    (request,) = syscall.NEMESIS.requests(aimed, view(), random.Random(1))
    assert [request.args[name] for name in ("first", "of", "who")] == [3, "release", "first"]
    assert checked({"id": 1, "do": request.do, **request.args})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"call": "opens"}, "unknown call 'opens'"),
        ({"act": "skip", "point": "after"}, "not with point=after"),
        ({"of": "query"}, "unknown value 'query'"),
        ({"first": "1/0"}, "expected a number from 1"),
        ({"call": "send:resorce"}, "did you mean 'resource'"),
        ({"act": "stop"}, "unknown value 'stop'"),
        ({"first": "0"}, "a number from 1"),
        ({"error": "EWHAT"}, "unknown value 'EWHAT'"),
    ],
)
def test_a_wrong_call_is_refused_before_the_run(options: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        syscall.NEMESIS.draw(random.Random(1), options, 60 * SECOND)


def test_a_failpoint_needs_its_function() -> None:
    with pytest.raises(UsageError, match="holdfast list functions"):
        failpoint.NEMESIS.draw(random.Random(1), {}, 60 * SECOND)
    options = {"function": "lease.New", "hold": "all"}
    (fault, *_) = failpoint.NEMESIS.draw(random.Random(1), options, 60 * SECOND)
    (request,) = failpoint.NEMESIS.requests(replace(fault, target="n2"), view(), random.Random(1))
    assert request.args == {"fault": fault.id, "nodes": ["n2"], **options, "then": "resume"}
    assert checked({"id": 1, "do": request.do, **request.args})


OF_DISKS = [power, sync_lie, disk_hang, disk_full, disk_slow, disk_error]


@pytest.mark.parametrize("module", OF_DISKS)
def test_a_fault_of_a_disk_is_a_request_that_the_agent_takes(module: Any) -> None:
    nemesis = module.NEMESIS
    (fault, *_) = nemesis.draw(random.Random(1), {}, 60 * SECOND)
    assert fault.target == "leader|one"
    (request,) = nemesis.requests(replace(fault, target="all"), view(), random.Random(1))
    assert request.do == nemesis.name and request.args["nodes"] == ["n1", "n2", "n3"]
    assert checked({"id": 1, "do": request.do, **request.args})


@pytest.mark.parametrize("target", ["holder", "leader|client", "n1+c2", "resource"])
def test_only_servers_have_disks(target: str) -> None:
    with pytest.raises(UsageError, match="is no server: it acts on servers only"):
        power.NEMESIS.draw(random.Random(1), {"target": target}, 60 * SECOND)


def test_options_of_slow_and_failing_disks_reach_the_agent() -> None:
    fault = Fault(id="f1", do="disk-slow", target="n1", at_ns=0, for_ns=S, params={"by": "2s"})
    (slow,) = disk_slow.NEMESIS.requests(fault, view(), random.Random(1))
    assert slow.args["by_ns"] == 2 * S
    params = {"call": "write", "error": "ENOSPC", "count": "3"}
    fault = replace(fault, do="disk-error", params=params)
    (error,) = disk_error.NEMESIS.requests(fault, view(), random.Random(1))
    assert error.args.items() >= {"call": "write", "error": "ENOSPC", "count": 3}.items()
    with pytest.raises(UsageError, match="EOI"):
        disk_error.NEMESIS.draw(random.Random(1), {"error": "EOI"}, S)


@pytest.mark.parametrize("module", ON_LINKS)
def test_a_fault_of_links_is_drawn_for_directed_links_that_the_agent_takes(module: Any) -> None:
    seen = view(servers=3, clients=2)
    drawn = module.NEMESIS.draw(random.Random(1), {"lease": "2s"}, 120 * SECOND)
    assert {fault.params["way"] for fault in drawn} == {"in", "out", "both"}
    for way, links in {
        "in": [("n1", "n2"), ("n1", "n3")],
        "out": [("n2", "n1"), ("n3", "n1")],
    }.items():
        fault = replace(drawn[0], target="n1", params={**drawn[0].params, "way": way})
        (request,) = module.NEMESIS.requests(fault, seen, random.Random(1))
        _, args = checked({"id": 1, "do": request.do, **request.args})
        address = {node.address: node.name for node in seen.nodes}
        found = [(row["node"], address[one]) for row in args["links"] for one in row["from"]]
        backwards = module is neighbour_lost
        assert found == ([(b, a) for a, b in links] if backwards else links)
        assert args["nodes"] == ["n1"] and args["act"] in LINK_ACTS


def test_a_fault_of_links_may_name_its_other_ends() -> None:
    seen = view()
    options = {"peer": "resource", "way": "in", "share": "5%"}
    (fault, *_) = packet_loss.NEMESIS.draw(random.Random(1), options, 60 * SECOND)
    aimed = replace(fault, target="c1")
    (request,) = packet_loss.NEMESIS.requests(aimed, seen, random.Random(1))
    (resource,) = seen.named("resource")
    assert request.args["links"] == [{"node": "c1", "from": [resource.address]}]
    assert request.args["share_ppm"] == 50_000


@pytest.mark.parametrize(
    ("module", "options", "why"),
    [
        (packet_loss, {"share": "0"}, "invalid share '0': expected > 0 to 1"),
        (packet_loss, {"share": "130%"}, "invalid share '130%'"),
        (packet_loss, {"peer": "resorce"}, "did you mean 'resource'"),
        (packet_loss, {"by": "1s"}, "unknown option 'by'"),
        (bandwidth, {"rate": "64"}, "invalid rate '64': expected a number with bit, kbit or mbit"),
        (bandwidth, {"rate": "0kbit"}, "invalid rate '0kbit'"),
        (mtu_black_hole, {"mtu": "0"}, "invalid number '0': expected 1 to 65535"),
        (packet_corrupt, {"byte": "2000"}, "invalid number '2000': expected 1 to 1000"),
        (slow_links, {"by": "-1s"}, "invalid duration '-1s': expected >= 0s"),
        (refuse_connections, {"answer": "no"}, "unknown value 'no'"),
    ],
)
def test_a_wrong_option_of_a_link_is_refused_before_the_run(
    module: Any, options: dict[str, str], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        module.NEMESIS.draw(random.Random(1), options, 60 * SECOND)


def test_a_system_without_links_between_servers_has_those_to_its_clients() -> None:
    seen = replace(view(servers=1, clients=2), peers=False)
    (fault, *_) = packet_loss.NEMESIS.draw(random.Random(1), {"target": "n1"}, 60 * SECOND)
    (request,) = packet_loss.NEMESIS.requests(
        replace(fault, params={"way": "in"}), seen, random.Random(1)
    )
    assert request.args["links"] == [
        {"node": "n1", "from": [node.address for node in seen.named("client")]}
    ]


@pytest.mark.parametrize(
    ("module", "options", "asked"),
    [
        (cpu_quota, {"share": "20%"}, {"share_ppm": 200_000, "period_ns": 100_000_000}),
        (open_files, {"spare": "3"}, {"spare": 3}),
        (memory_limit, {"spare": "2MiB"}, {"spare": 2 << 20}),
        (terminate, {}, {"grace_ns": 2 * SECOND}),
        (terminate, {"grace": "5s"}, {"grace_ns": 5 * SECOND}),
    ],
)
def test_faults_of_processes_are_those_of_servers(
    module: Any, options: dict[str, str], asked: dict[str, int]
) -> None:
    (fault, *_) = module.NEMESIS.draw(random.Random(1), options, 60 * SECOND)
    assert fault.target == "leader|one"
    (request,) = module.NEMESIS.requests(fault, view(), random.Random(1))
    _, args = checked({"id": 1, "do": request.do, **request.args})
    assert {name: args[name] for name in asked} == asked
    with pytest.raises(UsageError, match="'holder' is no server: it acts on servers only"):
        module.NEMESIS.draw(random.Random(1), {"target": "holder"}, 60 * SECOND)


@pytest.mark.parametrize("name", ENTRIES)
def test_faults_of_any_kind_wait_for_an_event_and_heal_before_the_end(name: str) -> None:
    timed = draw_all([(name, {})], ENTRIES, 3, 40 * S)
    within = {"when": "acquire:ok", "within": "9s"}
    faults = draw_all([(name, within)], ENTRIES, 3, 40 * S)
    assert len(faults) in range(1, len(timed) + 1)
    for fault in faults:
        assert (fault.when, fault.within_ns) == ("acquire:ok", 9 * S)
        assert fault.at_ns + fault.within_ns + fault.for_ns <= 40 * S
        assert not {"when", "within"} & set(fault.params)
    with pytest.raises(UsageError, match="unknown event"):
        draw_all([(name, {"when": "never"})], ENTRIES, 3, 40 * S)


def test_targets_come_in_turn() -> None:
    options = {"lease": "1s", "every": "2s", "for": "1s", "target": "leader|one/holder"}
    drawn = pause.NEMESIS.draw(random.Random(1), options, 12 * SECOND)
    assert [fault.target for fault in drawn[:4]] == ["leader|one", "holder"] * 2
