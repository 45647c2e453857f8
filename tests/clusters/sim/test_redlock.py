"""Redlock in the simulator: its own client and wire format over servers with wall clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.clusters.systems.redis.resp import encoded
from holdfast.clusters.systems.redlock.client import RELEASE, RENEW
from holdfast.clusters.systems.redlock.simulated import Disk, Keys, Store, command
from holdfast.harness.core.ports import Fault
from tests.clusters.sim.small import SECOND
from tests.clusters.sim.test_runs import fault, judged, plan, simulate, verdicts


class Machine:
    """What a simulated server needs of its node; clocks that a test sets."""

    def __init__(self) -> None:
        self.kept: Keys | None = None
        self.now_ns = 0
        self.torn = 1.0

    def mono_ns(self) -> int:
        return self.now_ns

    def wall_ns(self) -> int:
        return self.now_ns

    def run_ns(self) -> int:
        return self.now_ns

    def say(self, text: str) -> None:
        """Nobody reads it."""

    def sync(self, keep: Callable[[], None], tear: Callable[[float], None]) -> None:
        if self.torn < 1:
            tear(self.torn)
        else:
            keep()


def said(store: Store, *words: str | int) -> bytes:
    found = command(encoded(words))
    assert found is not None and found[1] == len(encoded(words))
    return store.answer(found[0])


def test_a_key_is_taken_once_until_its_time_is_over_on_the_wall_clock() -> None:
    now = [1000]
    store = Store(lambda: now[0], {})
    assert said(store, "SET", "k", 7, "NX", "PX", 100) == b"+OK\r\n"
    assert said(store, "SET", "k", 8, "NX", "PX", 100) == b"$-1\r\n"
    now[0] = 1100
    assert said(store, "GET", "k") == b"$1\r\n7\r\n"
    now[0] = 1101
    assert said(store, "GET", "k") == b"$-1\r\n"
    assert said(store, "SET", "k", 8, "NX", "PX", 100) == b"+OK\r\n"


def test_the_scripts_compare_before_they_act_and_no_other_script_is_known() -> None:
    now = [0]
    store = Store(lambda: now[0], {})
    said(store, "SET", "k", 7, "NX", "PX", 100)
    assert said(store, "EVAL", RENEW, 1, "k", 8, 500) == b":0\r\n"
    assert said(store, "EVAL", RELEASE, 1, "k", 8) == b":0\r\n"
    assert said(store, "EVAL", RENEW, 1, "k", 7, 500) == b":1\r\n"
    now[0] = 400
    assert said(store, "EVAL", RELEASE, 1, "k", 7) == b":1\r\n"
    assert said(store, "EVAL", RELEASE, 1, "k", 7) == b":0\r\n"
    assert said(store, "DEL", "k") == b":0\r\n"
    assert said(store, "EVAL", "return 1", 1, "k", 7).startswith(b"-ERR")
    assert said(store, "FLUSHALL").startswith(b"-ERR")


def test_a_command_is_read_only_when_it_is_whole() -> None:
    whole = encoded(("SET", "k", 7)) + encoded(("PING",))
    first = len(encoded(("SET", "k", 7)))
    for cut in range(len(whole)):
        found = command(whole[:cut])
        assert found == ((["SET", "k", "7"], first) if cut >= first else None)
    assert command(whole[first:]) == (["PING"], len(whole) - first)


@pytest.mark.parametrize(
    ("persistence", "torn", "kept"),
    [("always", 1.0, True), ("always", 0.9, False), ("stock", 1.0, False), ("none", 1.0, False)],
)
def test_what_survives_a_restart_is_what_the_persistence_says(
    persistence: str, torn: float, kept: bool
) -> None:
    machine = Machine()
    machine.torn = torn
    disk, store = Disk(machine, persistence), Store(lambda: 0, {})
    said(store, "SET", "k", 7, "NX", "PX", 100)
    disk.after(store, 0)
    assert disk.kept() == ({"k": ("7", 100)} if kept else {})


def test_a_server_as_shipped_takes_a_snapshot_after_so_many_changes_and_so_long() -> None:
    machine = Machine()
    disk, store = Disk(machine, "stock"), Store(lambda: 0, {})
    for n in range(100):
        said(store, "SET", f"k{n}", 7, "NX", "PX", 100)
        disk.after(store, n)
    assert disk.kept() == {}
    machine.now_ns = 301 * SECOND
    said(store, "GET", "k1")
    disk.after(store, store.changes)
    assert len(disk.kept()) == 100


# Whole runs


def run(*faults: Fault, **given: Any) -> dict[str, Any]:
    usual = {"system": "redlock", "workload": "renewal", "nodes": 5, "clients": 4}
    options = {"hold_leases": "1", **given.pop("options", {})}
    return judged(plan(**{**usual, **given}, faults=faults, options=options, time_ns=8 * SECOND))


def broken(found: dict[str, Any]) -> set[str]:
    (row,) = [row for row in found["verdicts"] if row["property"] == "mutual-exclusion"]
    return {finding["kind"] for finding in row["findings"]}


@pytest.mark.parametrize(("do", "target"), [("partition", "minority"), ("kill", "one")])
def test_it_keeps_its_promises_under_the_faults_that_it_is_made_for(do: str, target: str) -> None:
    params = {"shape": "isolate"} if do == "partition" else {}
    found = run(fault(do, target, 1000, 2000, **params), fault(do, target, 4500, 2000, **params))
    assert [window["effective"] for window in found["faults"]] == [True, True]
    assert found["problems"] == []
    assert verdicts(found)["mutual-exclusion"] == "HOLDS"
    assert "VIOLATED" not in verdicts(found).values()


def test_the_clocks_of_a_majority_jump_and_two_clients_hold() -> None:
    found = run(fault("clock", "majority", 3000, 2500, step="60s"))
    assert broken(found) & {"broken-lease", "double-grant"}


def test_one_clock_jumps_and_a_vote_that_was_bare_is_won_twice() -> None:
    """Eight clients: some win three of five votes, and the one that jumped is one of the three."""
    found = run(fault("clock", "one", 1000, 4000, step="60s"), clients=8, seed=5)
    assert broken(found) & {"broken-lease", "double-grant"}


def test_clocks_that_are_right_break_nothing() -> None:
    assert verdicts(run(clients=8))["mutual-exclusion"] == "HOLDS"


@pytest.mark.parametrize(("persistence", "twice"), [("none", True), ("always", False)])
def test_servers_that_forget_grant_twice_and_those_that_write_do_not(
    persistence: str, twice: bool
) -> None:
    faults = [fault("kill", "all", at_ms, 50) for at_ms in (1500, 3500, 5500)]
    found = run(*faults, options={"persistence": persistence})
    assert bool(broken(found)) is twice, found["verdicts"]


def test_one_seed_is_one_history_and_frames_through_json_change_nothing() -> None:
    faults = [fault("partition", "one", 1000, 1500, shape="isolate")]
    chosen = [
        plan(
            system="redlock", nodes=5, clients=4, time_ns=4 * SECOND, faults=faults, options=options
        )
        for options in ({}, {}, {"sim_marshal": "1"})
    ]
    assert len({simulate(one)[0].digest for one in chosen}) == 1
