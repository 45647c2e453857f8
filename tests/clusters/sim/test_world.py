"""Time, loops and the network of the simulator keep to what real ones do."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.clusters.backends.sim.network import Weather
from holdfast.clusters.backends.sim.node_clock import NodeClock, NodeSkew
from holdfast.clusters.backends.sim.recorder import LiveRows
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.history.so_far import Hold
from tests.clusters.sim.small import MS, SECOND, Small


def cut(world: Small, source: str, target: str, by: int = 1) -> None:
    world.network.link(source, target).cuts += by


def test_time_jumps_to_what_is_due_and_no_further() -> None:
    world = Small()
    seen: list[int] = []
    world.loops["a"].call_later(3.0, lambda: seen.append(world.since_ns()))
    world.loops["a"].call_later(1.5, lambda: seen.append(world.since_ns()))
    cancelled = world.loops["a"].call_later(2.0, lambda: seen.append(-1))
    cancelled.cancel()
    world.run(2500 * MS)
    assert seen == [1500 * MS + 1], "a timer is a nanosecond late, never early"
    assert world.since_ns() == 2500 * MS


def test_a_timer_runs_on_the_drifting_clock_of_its_node() -> None:
    world = Small(drift_ppm=1000)
    seen: list[int] = []
    world.loops["a"].call_later(10.0, lambda: seen.append(world.since_ns()))
    world.run(11 * SECOND)
    assert seen == [pytest.approx(10 * SECOND * 1000 / 1001, abs=10)]


def test_who_sleeps_until_a_deadline_gets_there_whatever_a_float_makes_of_it() -> None:
    world = Small(drift_ppm=137)
    rounds: list[int] = []

    async def work(until_s: float) -> None:
        loop = asyncio.get_running_loop()
        while (left_s := until_s - loop.time()) > 0:
            rounds.append(1)
            assert len(rounds) < 1000, "time stands still"
            await asyncio.sleep(left_s)

    for n in range(50):
        world.start("a", work(1000.5 + n / 7 + n * 1e-10))
    world.run(20 * SECOND)
    assert 50 <= len(rounds) <= 150


def test_a_stopped_node_goes_on_in_the_order_in_which_things_came() -> None:
    world = Small()
    loop, seen = world.loops["a"], list[str]()
    loop.call_later(1.0, seen.append, "due")
    loop.stop()
    world.loops["b"].call_later(2.0, lambda: loop.call_soon(seen.append, "came"))
    world.run(3 * SECOND)
    assert seen == []
    loop.go()
    world.run(MS)
    assert seen == ["came", "due"], "what has come is looked at before what is due"


@pytest.mark.parametrize("drift_ppm", [0, 300])
def test_a_suspended_node_sees_no_monotonic_time_and_its_timers_are_late(drift_ppm: int) -> None:
    world = Small(drift_ppm=drift_ppm)
    loop, clock, seen = world.loops["a"], world.clocks["a"], list[tuple[str, int]]()

    def note(what: str) -> None:
        seen.append((what, loop.mono_ns() - begun_ns))

    begun_ns, wall_ns = loop.mono_ns(), clock.wall_ns(world.engine.now_ns)
    loop.call_later(1.0, note, "due meanwhile")
    loop.call_later(3.0, note, "due later")
    world.run(500 * MS)
    before_ns = loop.mono_ns()
    loop.suspend()
    world.loops["b"].call_later(1.0, lambda: loop.call_soon(note, "came"))
    world.run(2 * SECOND)
    assert seen == []
    assert loop.resumed() == pytest.approx(2 * SECOND, rel=0.001)
    assert loop.mono_ns() == before_ns
    world.run(5 * SECOND)
    assert [what for what, _ in seen] == ["came", "due meanwhile", "due later"]
    for (_, at_ns), due_ns in zip(seen, (500 * MS, SECOND, 3 * SECOND), strict=True):
        assert at_ns == pytest.approx(due_ns, abs=10 * MS) and at_ns >= due_ns - MS
    passed_ns = clock.wall_ns(world.engine.now_ns) - wall_ns
    assert passed_ns == pytest.approx(7.5 * SECOND, rel=0.001), "wall time went on"


def test_suspensions_that_overlap_are_one_standstill() -> None:
    world = Small()
    loop = world.loops["a"]
    begun_ns = loop.mono_ns()
    loop.suspend()
    world.run(SECOND)
    loop.suspend()
    world.run(SECOND)
    assert loop.resumed() == 0 and loop.stopped
    world.run(SECOND)
    assert loop.resumed() == 3 * SECOND and not loop.stopped
    assert loop.mono_ns() == begun_ns


def test_what_is_to_come_next_comes_at_once_where_nothing_else_is_ready() -> None:
    world = Small()
    loop, seen = world.loops["a"], list[str]()

    def last_act(name: str) -> None:
        loop.call_next(lambda: seen.append(f"after {name}"))

    loop.call_soon(last_act, "one")
    loop.call_soon(last_act, "two")
    loop.call_soon(seen.append, "three")
    world.run(MS)
    assert seen == ["three", "after one", "after two"], "as call_soon has it"
    loop.call_soon(last_act, "four")
    world.run(MS)
    assert seen[3:] == ["after four"]


def test_what_is_to_come_next_waits_until_a_stopped_node_goes_on() -> None:
    world = Small()
    loop, seen = world.loops["a"], list[str]()

    def freeze() -> None:
        loop.stop()
        assert loop.call_next(lambda: seen.append("next")) is not None

    loop.call_soon(freeze)
    world.run(MS)
    assert seen == []
    loop.go()
    world.run(MS)
    assert seen == ["next"]


def test_a_dead_loop_never_runs_again() -> None:
    world = Small()
    loop, seen = world.loops["a"], list[str]()
    loop.call_later(1.0, seen.append, "late")
    loop.dead = True
    loop.call_soon(seen.append, "soon")
    world.run(2 * SECOND)
    assert seen == []


def test_tasks_timeouts_and_locks_of_asyncio_run_on_a_node() -> None:
    world = Small()
    gate = asyncio.Lock()
    seen: list[int] = []

    async def work(for_s: float) -> None:
        async with gate:
            await asyncio.sleep(for_s)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.get_running_loop().create_future()
        seen.append(world.since_ns())

    begun = [world.start("a", work(2.0)), world.start("a", work(3.0))]
    world.run(20 * SECOND)
    assert all(tasks[0].done() and tasks[0].exception() is None for tasks in begun)
    assert [t_ns // MS for t_ns in seen] == [3000, 6000]


def test_frames_of_a_connection_arrive_once_and_in_order() -> None:
    world = Small(weather=Weather(slow_ns=50 * MS, spike_ns=200 * MS))
    wire = world.connected()
    for n in range(200):
        wire.send({"n": n})
    world.run(2 * SECOND)
    assert world.numbers() == list(range(200))


def test_a_short_cut_only_delays() -> None:
    world = Small()
    wire = world.connected()
    cut(world, "b", "a")
    wire.send({"n": 1})
    wire.send({"n": 2})
    world.run(300 * MS)
    cut(world, "b", "a", by=-1)
    world.run(2 * SECOND)
    assert world.numbers() == [1, 2]
    assert world.ended == []
    assert world.network.link("b", "a").dropped >= 2


def test_a_long_cut_ends_the_connection_of_who_sends_and_later_that_of_who_waits() -> None:
    world = Small()
    wire = world.connected()
    cut(world, "b", "a")
    cut_ns = world.since_ns()
    wire.send({"n": 1})
    world.run(10 * SECOND)
    assert world.numbers() == []
    (first_ns, first, _), (second_ns, second, _) = world.ended
    assert (first, second) == ("b", "a")
    assert first_ns - cut_ns == pytest.approx(SECOND, abs=50 * MS)
    assert 5 * SECOND <= second_ns - first_ns <= 7 * SECOND


def test_a_cut_of_the_way_back_loses_the_acknowledgement_not_the_frame() -> None:
    world = Small()
    wire = world.connected()
    cut(world, "a", "b")
    wire.send({"n": 1})
    world.run(2 * SECOND)
    assert world.numbers() == [1]
    assert [who for _, who, _ in world.ended] == ["b"]


def test_a_connection_through_a_cut_is_made_when_it_is_mended() -> None:
    world = Small()
    world.listen()
    cut(world, "b", "a")
    begun = world.start("b", world.connect())
    world.run(1500 * MS)
    assert not begun[0].done()
    cut(world, "b", "a", by=-1)
    world.run(1500 * MS)
    assert begun[0].done()


def test_nobody_listens_is_said_at_once() -> None:
    world = Small()
    begun = world.start("b", world.connect())
    world.run(SECOND)
    assert isinstance(begun[0].exception(), ConnectionRefusedError)


def test_who_crashes_is_noticed_by_a_reset_and_hears_nothing() -> None:
    world = Small()
    wire = world.connected()
    world.loops["a"].dead = True
    world.network.crash("a")
    wire.send({"n": 1})
    world.run(SECOND)
    assert [(who, reason) for _, who, reason in world.ended] == [("b", "reset by the other end")]
    assert world.numbers() == []
    assert not wire.send({"n": 2})


def test_loose_links_lose_double_and_reorder_but_never_the_first_frame() -> None:
    world = Small(weather=Weather(slow_ns=50 * MS, loose=True, loss=0.2, double=0.2))
    wire = world.connected()
    for n in range(300):
        wire.send({"n": n})
    world.run(2 * SECOND)
    numbers = world.numbers()
    seen = dict.fromkeys(numbers)
    assert 0 in seen
    assert 200 < len(seen) < 290, "some were lost"
    assert len(numbers) > len(seen), "some came twice"
    assert numbers != sorted(numbers), "some were overtaken"


def test_a_frozen_node_stands_still_inside_its_next_send() -> None:
    world = Small()
    wire = world.connected()
    loop, after = world.loops["b"], list[str]()

    def act() -> None:
        wire.send({"n": 1})
        wire.send({"n": 2})
        loop.call_soon(after.append, "next callback")

    loop.freeze()
    loop.call_soon(act)
    world.run(5 * SECOND)
    assert world.numbers() == [] and after == []
    assert loop.frozen
    loop.thaw()
    world.run(SECOND)
    assert world.numbers() == [1, 2] and after == ["next callback"]


def test_a_freeze_that_met_no_send_leaves_no_trace() -> None:
    world = Small()
    wire = world.connected()
    loop = world.loops["b"]
    loop.freeze()
    world.run(SECOND)
    assert not loop.frozen
    loop.thaw()
    wire.send({"n": 1})
    world.run(SECOND)
    assert world.numbers() == [1]


def test_a_wall_clock_is_moved_and_comes_back_while_the_monotonic_one_goes_on() -> None:
    clock = NodeClock(5 * SECOND, 0)
    clock.skew("f1", NodeSkew(since_ns=0, step_ns=-3 * SECOND, ppm=500_000, strobe_ns=0))
    assert clock.wall_ns(2 * SECOND) == 5 * SECOND
    assert clock.mono_ns(2 * SECOND) == 7 * SECOND
    clock.restore("f1")
    assert clock.wall_ns(2 * SECOND) == 7 * SECOND


@pytest.mark.parametrize("drift_ppm", [-450, 0, 1, 450])
def test_a_clock_and_its_inverse_agree(drift_ppm: int) -> None:
    clock = NodeClock(123_456_789, drift_ppm)
    for mono_ns in (1_000_000_000_001, 1_234_567_890_123, 10**15 + 7):
        true_ns = clock.true_ns(mono_ns)
        assert clock.mono_ns(true_ns) >= mono_ns > clock.mono_ns(true_ns - 1)


def test_who_waits_for_a_holder_learns_of_the_next_grant() -> None:
    world = Small()
    holding, seen = LiveRows(), list[int]()

    async def work() -> None:
        await holding.news()
        seen.append(world.since_ns())

    world.start("b", work())
    world.run(501 * MS)
    assert seen == []
    holding.grant(Hold(process=1, node="a", attempt=7, since_ns=world.since_ns()))
    world.run(10 * MS)
    assert 501 * MS < seen[0] <= 504 * MS
    assert [hold.attempt for hold in holding.holds()] == [7]


def test_what_breeds_without_end_is_an_error_and_no_run_that_lasts_for_ever() -> None:
    small = Small()

    def breed() -> None:
        small.engine.later(MS, breed)
        small.engine.later(2 * MS, breed)

    breed()
    with pytest.raises(EnvironmentFailed, match="pending, no end"):
        small.run(SECOND)
