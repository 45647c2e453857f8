"""Writes that stop or tear, links that are slow: each takes effect where it can, and only there."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from holdfast.clusters.systems.reference.consensus.messages import (
    NOTHING,
    Ballot,
    Durable,
    Entry,
    Save,
    Snapshot,
    Tail,
)
from holdfast.clusters.systems.reference.service.simulated_node import DiskContent, torn
from holdfast.harness.core.errors import UsageError
from tests.clusters.sim.small import MS, SECOND, Small
from tests.clusters.sim.test_runs import fault, judged, plan, verdicts

BY = {"slow-links": {"by": "200ms", "way": "in"}}


@cache
def faulted(do: str) -> dict[str, Any]:
    params = BY.get(do, {})
    faults = [fault(do, "n1", 1000, 1500, **params), fault(do, "n2", 4000, 1500, **params)]
    return judged(plan(faults=faults, time_ns=6 * SECOND, nodes=3, clients=3))


@pytest.mark.parametrize("do", ["freeze-write", "torn-write", "slow-links"])
def test_it_bites_and_the_reference_keeps_its_promises(do: str) -> None:
    found = faulted(do)
    assert [window["effective"] for window in found["faults"]] == [True, True], found["faults"]
    assert found["problems"] == []
    assert "VIOLATED" not in verdicts(found).values()
    assert verdicts(found)["mutual-exclusion"] == "HOLDS"


@pytest.mark.parametrize("do", ["freeze-write", "torn-write"])
def test_where_nothing_is_written_no_write_is_hurt(do: str) -> None:
    faults = [fault(do, "n1", 1000, 1500)]
    (window,) = judged(plan(system="single", faults=faults, time_ns=4 * SECOND))["faults"]
    assert window["effective"] is False and window["reason"] == ""


def test_a_fault_at_a_send_waits_for_one_to_the_chosen_peer() -> None:
    faults = [
        fault("syscall", "holder", 1000, 2500, call="send:resource"),
        fault("syscall", "holder", 5000, 1500, call="send:probe"),
        fault("syscall", "n1", 7000, 500, call="write", act="tear"),
    ]
    found = judged(plan(faults=faults, time_ns=8 * SECOND, nodes=3, clients=3))
    assert [window["effective"] for window in found["faults"]] == [True, False, True]
    # It stopped inside the write to the resource, which had served a later owner when it arrived.
    # Without an old token to reject it would be UNKNOWN.
    assert verdicts(found)["no-stale-write"] == "HOLDS"
    assert "VIOLATED" not in verdicts(found).values()


def test_what_the_simulator_does_not_have_fails_and_is_no_evidence() -> None:
    faults = [fault("syscall", "n1", 1000, 500, call="sync", act="fail")]
    (window,) = judged(plan(faults=faults, time_ns=3 * SECOND))["faults"]
    assert window["effective"] is False and "act=fail at call=sync" in window["reason"]


def test_a_torn_write_kills_its_node_and_says_how_much_of_it_stayed() -> None:
    first, _ = faulted("torn-write")["faults"]
    assert list(first["evidence"]["kept"]) == ["n1"]
    assert 0 <= first["evidence"]["kept"]["n1"] < 1


def test_a_slow_link_counts_what_was_late() -> None:
    first, _ = faulted("slow-links")["faults"]
    assert first["evidence"]["slowed"] > 0 and first["evidence"]["by_ns"] == 200 * MS
    assert all(name.startswith("n1<-") for name in first["evidence"]["links"])


def test_a_frame_on_a_slow_link_is_late_by_so_much_and_the_way_back_is_not() -> None:
    arrivals = []
    for late_ns in (0, 300 * MS):
        world = Small()
        wire = world.connected()
        world.network.link("b", "a").slow_ns = late_ns
        sent_ns = world.since_ns()
        wire.send({"n": 1})
        world.run(SECOND)
        arrivals.append(world.got[0][0] - sent_ns)
        assert world.network.link("b", "a").slowed == (1 if late_ns else 0)
        assert world.network.link("a", "b").slowed == 0
    assert arrivals[1] - arrivals[0] == 300 * MS


def test_of_a_torn_write_whole_records_at_its_beginning_stay() -> None:
    entries = tuple(Entry(term=1, command={"n": n}) for n in range(4))
    saves: list[Save] = [Ballot(term=1, vote="n1"), Tail(first=1, entries=entries)]
    assert torn(saves, 0.0)[0] == []
    assert torn(saves, 0.25)[0] == saves[:1]
    assert torn(saves, 0.65)[0] == [saves[0], Tail(first=1, entries=entries[:2])]
    assert torn([NOTHING], 0.99) == ([], b""), "a snapshot is there whole or not at all"


@pytest.mark.parametrize("share", [n / 40 for n in range(40)])
def test_a_node_cuts_off_the_record_that_was_torn_and_goes_on(share: float) -> None:
    entries = tuple(Entry(term=1, command={"n": n}) for n in range(4))
    snapshot = Snapshot(index=7, term=1, state={"a": 1})
    kept = DiskContent()
    kept.take([Durable(ballot=Ballot(term=1, vote="n2"), snapshot=snapshot, entries=entries[:1])])
    left = kept.tear([Ballot(term=2, vote="n1"), Tail(first=9, entries=entries)], share)
    found, cut = kept.read()
    assert found == Durable(ballot=kept.ballot, snapshot=snapshot, entries=tuple(kept.entries))
    assert (len(left), len(kept.entries)) == (
        min(2, int(5 * share)),
        1 + max(0, int(5 * share) - 1),
    )
    assert cut > 0, "there is always the beginning of a record"
    kept.take([Tail(first=9, entries=entries)])
    assert kept.read() == (replace(found, entries=entries[:1] + entries), 0)


def test_jitter_makes_frames_late_by_different_times() -> None:
    world = Small()
    wire = world.connected()
    world.network.link("b", "a").jitter_ns = 300 * MS
    late = []
    for n in range(20):
        sent_ns = world.since_ns()
        wire.send({"n": n})
        world.run(SECOND)
        late.append(world.got[-1][0] - sent_ns)
    assert max(late) < 330 * MS and min(late) >= 0
    assert len({one // (30 * MS) for one in late}) > 3
    assert world.network.link("b", "a").slowed == 20


def test_the_simulator_refuses_links_that_it_does_not_have() -> None:
    with pytest.raises(UsageError, match="packet-loss does not run in the simulator"):
        plan(nemeses=(("packet-loss", {}),))


@pytest.mark.parametrize("do", ["freeze-write", "torn-write", "slow-links"])
def test_drawn_from_a_seed_it_bites_and_nothing_promised_breaks(do: str) -> None:
    found = judged(
        plan(nemeses=((do, {"every": "2s", "for": "1s"}),), time_ns=6 * SECOND, clients=3)
    )
    assert any(window["effective"] for window in found["faults"])
    assert "VIOLATED" not in verdicts(found).values()


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ("isolate", "n1"),
        ("halves", "all"),
        ("bridge", "all"),
        ("majority-ring", "all"),
        ("one-way", "n1"),
    ],
)
def test_a_partition_of_independent_servers_stops_frames_of_their_clients(
    shape: str, target: str
) -> None:
    faults = [fault("partition", target, 1000, 1500, shape=shape)]
    found = judged(plan(system="majority", faults=faults, time_ns=4 * SECOND, nodes=3, clients=3))
    (window,) = found["faults"]
    assert window["effective"], window
    links = window["evidence"]["links"]
    assert all(link.startswith("c") or "<-10.77.1." in link for link in links)
    assert not [link for link in links if link[0] == "n" and link.endswith((".1", ".2", ".3"))]


@pytest.mark.parametrize("do", ["partition", "slow-links"])
def test_the_lone_server_of_a_system_can_be_cut_off_or_slow(do: str) -> None:
    faults = [fault(do, "leader|one", 1000, 1500, **BY.get(do, {}))]
    found = judged(plan(system="single", faults=faults, time_ns=4 * SECOND, clients=3))
    assert [window["effective"] for window in found["faults"]] == [True], found["faults"]


def test_the_history_of_a_system_with_peers_does_not_depend_on_who_has_none() -> None:
    faults = [fault("partition", "leader|one", 1000, 1500, shape="isolate")]
    (window,) = judged(plan(faults=faults, time_ns=4 * SECOND, nodes=3, clients=3))["faults"]
    assert all(link.startswith("n") for link in window["evidence"]["links"])
