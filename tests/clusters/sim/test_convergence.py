"""The rule about the end of a run: a server catches up with its leader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.clusters.backends.sim.run import simulate
from holdfast.clusters.systems.reference.consensus.messages import Appended, Install
from holdfast.clusters.systems.reference.consensus.raft import Consensus
from holdfast.clusters.systems.reference.specification import trace
from holdfast.clusters.systems.reference.specification.convergence import Intervals
from holdfast.clusters.systems.reference.specification.validation import validate
from holdfast.engine import swarm
from holdfast.engine.seed_search import one_seed
from holdfast.harness.verdicts.judged import Departure
from holdfast.harness.verdicts.specification import Settled
from holdfast.planning import prepare
from tests.clusters.sim.small import MS, SECOND, Small
from tests.clusters.sim.test_trace import ELECTED, saved, stood, voted, wrote

RULE = "a server catches up with its leader"
SEEDS = 20


def first_departure(first: int) -> Departure:
    # `first` departs today. The next ones are for a day on which seeds have other histories.
    ran = (one_seed(seed, "reference", {}, validated=True) for seed in range(first, first + SEEDS))
    return next(filter(None, (one.departure for one in ran)))


def test_a_follower_that_refuses_snapshots_departs(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Consensus._on_install

    def refuses(self: Consensus, now_ns: int, install: Install) -> None:
        if install.term > self.term:
            usual(self, now_ns, install)

    monkeypatch.setattr(Consensus, "_on_install", refuses)
    found = first_departure(700_000)
    assert found.rule == RULE
    assert found.set_by.endswith("is committed, which it should get")
    assert found.began >= 0


def test_a_leader_that_takes_no_for_an_answer_departs(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Consensus._on_appended

    def believes(self: Consensus, now_ns: int, reply: Appended) -> None:
        usual(self, now_ns, replace(reply, ok=True))

    monkeypatch.setattr(Consensus, "_on_appended", believes)
    assert first_departure(700_000).rule == RULE


# One cluster, step by step, in ms. n1 leads from 10 on and is last seen to lead at 1500.

OPTIONS = {"election_ms": "90"}
SETTLED = Settled(from_ns=20 * MS, trip_ns=10 * MS)
ONCE_MS = 90 + 2 * 30 + 5 * 10
"""After it a follower that lacks a few entries has them, where no message is lost."""


def boot(node: str, t_ms: int) -> trace.Boot:
    return trace.Boot(node, t_ms * MS, t_ms * MS, trace.Save("all"), ())


def at(t_ms: int, step: trace.Step, *, leads: bool = False) -> trace.Step:
    return step._replace(t_ns=t_ms * MS, now_ns=t_ms * MS, leads=leads)


def led(t_ms: int, *indices: int, term: int = 1) -> trace.Step:
    committed = tuple((index, term) for index in indices)
    done = tuple(trace.Applied(index, {"is": "noop"}, {}) for index in indices)
    return at(t_ms, saved("n1", committed=committed, done=done), leads=True)


Events = tuple[trace.Event, ...]
BOOTS: Events = tuple(boot(node, 1) for node in ("n1", "n2", "n3"))
ELECTION: Events = tuple(at(5, step) for step in ELECTED)
FIRST: Events = (at(8, wrote("n2", 1, 1)), led(10, 1), at(15, saved("n2", committed=((1, 1),))))
TWO_HAVE_IT: Events = (*BOOTS, *ELECTION, *FIRST)
THIRD: Events = (at(30, wrote("n3", 1, 1)), at(31, saved("n3", committed=((1, 1),))))


def end(*events: trace.Event, settled: Settled | None = SETTLED) -> Departure | None:
    found = validate(events, nodes=3, options=OPTIONS, settled=settled)
    assert found is None or found.rule == RULE
    return found


def test_a_server_without_a_committed_entry_departs_at_the_end() -> None:
    run = TWO_HAVE_IT
    assert end(*run, *THIRD, led(1500)) is None
    found = end(*run, led(1500))
    assert found is not None
    assert (found.node, found.t_ns) == ("n3", 1500 * MS)
    assert found.allows.startswith("entry 1, or a snapshot that covers it, taken as committed")
    assert found.happened.startswith("at the end of the run it is committed to 0, 0.200 s and more")
    assert found.began == 7
    assert found.set_by == "entry 1 is committed, which it should get"


def test_an_entry_that_is_never_taken_as_committed_departs_too() -> None:
    found = end(*BOOTS, *ELECTION, *FIRST, THIRD[0], led(1500))
    assert found is not None and found.before.endswith("log to 1 (term 1), committed to 0")


def test_a_snapshot_counts_as_the_entries_that_it_covers() -> None:
    loaded = trace.TableView(1, {}, {}, 0, {})
    snapshot = trace.Save("all", term=1, base=1, base_term=1)
    step = saved("n3", snapshot, committed=((1, 1),), done=(loaded,))
    assert end(*BOOTS, *ELECTION, *FIRST, at(30, step), led(1500)) is None


def test_the_bound_counts_from_the_last_of_all_that_disturbs() -> None:
    run = TWO_HAVE_IT
    assert end(*run, led(20 + ONCE_MS - 1)) is None
    assert end(*run, led(20 + ONCE_MS)) is not None
    later = replace(SETTLED, from_ns=1000 * MS)
    assert end(*run, led(999 + ONCE_MS), settled=later) is None
    restarted = boot("n3", 1100)
    assert end(*run, restarted, led(1099 + ONCE_MS)) is None
    assert end(*run, restarted, led(1100 + ONCE_MS)) is not None


def test_entries_of_a_term_that_the_leader_lacks_take_a_try_more() -> None:
    former = (stood("n3"), voted("n2", "n3"), wrote("n3", 1, 1))
    now = (stood("n1", 2), voted("n2", "n1", 2), wrote("n1", 1, 2), wrote("n2", 1, 2))
    before: Events = tuple(at(5, step) for step in (*former, *now))
    have = led(10, 1, term=2), at(15, saved("n2", committed=((1, 2),)))
    run: Events = (*BOOTS, *before, *have)
    assert end(*run, led(20 + ONCE_MS + 119)) is None
    found = end(*run, led(20 + ONCE_MS + 120))
    assert found is not None and found.node == "n3"


def test_a_server_in_a_later_term_need_not_follow() -> None:
    later = at(30, saved("n3", trace.Save("ballot", 2, "n3")))
    assert end(*BOOTS, *ELECTION, *FIRST, later, led(1500)) is None


def test_nothing_is_said_without_a_settled_end_or_a_leader() -> None:
    run = TWO_HAVE_IT
    assert end(*run, led(1500), settled=None) is None
    assert end(*run, at(1500, saved("n1", trace.Save("ballot", 2, "n2")))) is None
    assert end(*BOOTS, *ELECTION) is None


def test_messages_that_are_lost_make_the_bound_longer() -> None:
    once = Intervals.of(OPTIONS, SETTLED)
    assert (once.once_ns, once.again_ns, once.failures) == (ONCE_MS * MS, 120 * MS, 0)
    lossy = Intervals.of(OPTIONS, replace(SETTLED, loss=0.1, trip_ns=100 * MS))
    assert (lossy.once_ns, lossy.again_ns, lossy.failures) == (650 * MS, 230 * MS, 16)
    assert Intervals.of({}, SETTLED).again_ns == 400 * MS + 400 * MS // 3


# What a simulated run knows of its end


def test_a_route_is_settled_once_it_is_open_and_nothing_is_held_up() -> None:
    world = Small()
    wire = world.connected()
    assert world.network.settled_ns() == -1, "a has no connection to b"
    world.network._routes["a", "b"] = world.network._routes["b", "a"]
    opened_ns = world.network.settled_ns()
    assert 0 < opened_ns <= world.engine.now_ns
    world.network.link("b", "a").cuts += 1
    wire.send({"n": 1})
    world.run(300 * MS)
    world.network.link("b", "a").cuts -= 1
    assert world.network.settled_ns() == -1, "a frame is held up"
    world.run(SECOND)
    assert world.numbers() == [1]
    assert opened_ns < world.network.settled_ns() == world.network.delayed_ns


def test_a_run_ends_settled_with_all_servers_up() -> None:
    plan = swarm.draw(2, "reference", 3, {"sim_loss_ppm": "20000", "sim_double_ppm": "0"})
    world = simulate(prepare.manifest(prepare.prepared(plan), "sim-2", ""))
    stop_ns = next(mark.t_ns for mark in world.marks if mark.mark == "stop")
    assert world.settled is not None
    assert world.settled.from_ns >= stop_ns
    assert world.settled.loss == 0.02
    alone = swarm.draw(2, "single", 1, {})
    assert simulate(prepare.manifest(prepare.prepared(alone), "sim-2", "")).settled is None
