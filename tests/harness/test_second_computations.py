"""Clock bounds, ranks and histories of holders beside plain computations of the same."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from holdfast.harness.core import statistics
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.statistics import chance_of_greater, clopper_pearson
from holdfast.harness.history.host_clocks import HostClock, HostClocks, Sample
from holdfast.harness.history.live import Live
from holdfast.harness.recording.segments import Recorder

PPM = 1000


def samples(rng: random.Random, count: int) -> list[Sample]:
    """Of a clock that runs evenly, half as fast off as it may be."""
    found = []
    for _ in range(count):
        host_ns = rng.randrange(10**9)
        driver_ns = host_ns + 5_000_000 + host_ns // 2000
        before, after = rng.randrange(1, 400_000), rng.randrange(1, 400_000)
        found.append(
            Sample(sent_ns=driver_ns - before, host_ns=host_ns, received_ns=driver_ns + after)
        )
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_bounds_of_a_timestamp_are_the_tightest_of_all_samples(seed: int) -> None:
    rng = random.Random(seed)
    taken = samples(rng, rng.randrange(1, 9))
    clock = HostClock(taken, PPM)
    stamps = np.array([rng.randrange(-(10**8), 11 * 10**8) for _ in range(40)], np.int64)
    for stamp, low, high in zip(stamps, clock.earliest(stamps), clock.latest(stamps), strict=True):
        drift = {one: abs(int(stamp) - one.host_ns) * PPM / 1e6 for one in taken}
        earliest = max(stamp + one.sent_ns - one.host_ns - drift[one] for one in taken)
        latest = min(stamp + one.received_ns - one.host_ns + drift[one] for one in taken)
        # Each of at most two moves of a bound is rounded up, by 3 ns at most.
        assert earliest - 6 <= low <= earliest and latest <= high <= latest + 6
    assert not clock.contradicted
    widths = clock.latest(stamps) - clock.earliest(stamps)
    assert clock.error_ns(stamps) == (max(widths.tolist()) + 1) // 2


def test_a_host_that_was_never_measured_proves_nothing() -> None:
    with pytest.raises(UsageError, match="the clock of a host was never measured"):
        HostClock([])
    known = HostClock(samples(random.Random(1), 3))
    clocks = HostClocks(asked_ns=1, most_ppm=PPM, hosts={"h1": ["n1"], "h2": ["n2"]},
                        clocks={"h1": known}, seen_ns={"h1": 9})  # fmt: skip
    assert clocks.of_node("n1") == ("h1", known)
    for node in ("n2", "n3"):
        with pytest.raises(UsageError, match=f"no clock data of the host of {node}"):
            clocks.of_node(node)
    assert [one[:36] for one in clocks.problems({"h1": 1})] == [
        "incomplete records from h1: the hist"
    ]
    assert "an error of up to 2e-06 ms, and the limit is 1e-06 ms" in clocks.problems({"h1": 2})[0]
    assert clocks.cut_ns() == int(known.earliest(np.array([9], np.int64))[0])
    whole = HostClocks(asked_ns=1, most_ppm=PPM, hosts={}, clocks={"h1": known},
                       seen_ns={"h1": 9}, whole=frozenset({"h1"}))  # fmt: skip
    assert whole.cut_ns() is None and whole.problems({"h1": 1}) == []


def test_the_normal_limit_of_the_rank_test_has_the_variance_of_the_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statistics, "EXACT_UP_TO", 0)
    rng = random.Random(8)
    for levels in (2, 3, 8, 1000):
        new = [float(rng.randrange(levels)) + (n % 3 == 0) for n in range(14)]
        old = [float(rng.randrange(levels)) for _ in range(16)]
        every = [*new, *old]
        ranks = [sum(b < a for b in every) + (every.count(a) + 1) / 2 for a in every]
        middle = sum(ranks) / 30
        spread = 14 * 16 / (30 * 29) * sum((rank - middle) ** 2 for rank in ranks)
        z = (sum(ranks[:14]) - 0.5 - 14 * middle) / math.sqrt(spread)
        assert chance_of_greater(new, old) == pytest.approx(math.erfc(z / math.sqrt(2)) / 2)
    assert chance_of_greater([5.0] * 9, [5.0] * 9) == 1.0


@pytest.mark.parametrize(("events", "runs"), [(0, 9), (1, 9), (4, 9), (9, 9), (300, 7000)])
def test_the_bounds_of_a_rate_have_the_tails_that_define_them(events: int, runs: int) -> None:
    low, high = clopper_pearson(events, runs)
    tail = 0.05 if events in (0, runs) else 0.025
    if events:
        assert 1 - statistics.at_most(events - 1, runs, low) == pytest.approx(tail, abs=1e-6)
    if events < runs:
        assert statistics.at_most(events, runs, high) == pytest.approx(tail, abs=1e-6)
    assert clopper_pearson(runs - events, runs) == pytest.approx((1 - high, 1 - low), abs=1e-9)
    assert clopper_pearson(1, 0) == (0.0, 1.0)


def test_the_exact_interval_meets_the_score_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = clopper_pearson(1000, 5000)
    monkeypatch.setattr(statistics, "EXACT_EVENTS", 999)
    score = clopper_pearson(1000, 5000)
    assert score != exact and score == pytest.approx(exact, abs=3e-4)


@pytest.mark.parametrize("seed", range(3))
def test_holders_are_those_of_all_rows_however_often_one_looks(tmp_path: Path, seed: int) -> None:
    rng, clock = random.Random(seed), iter(range(1, 9999))
    live = Live(tmp_path, lambda node: 1000)
    held: dict[int, tuple[int, int]] = {}
    waiting: dict[int, tuple[int, int]] = {}
    grants, ops = 0, 0
    with Recorder(tmp_path, "c1", {"node": "n7"}, now=clock.__next__) as recorder:
        for attempt in range(1, 120):
            process = rng.randrange(1, 4)
            row = recorder.invoke(rng.choice((Op.ACQUIRE, Op.TRY)), process, 0, attempt=attempt)
            waiting[attempt] = (row, process)
            ops += 1
            if waiting and rng.random() < 0.8:
                other = rng.choice(list(waiting))
                row, owner = waiting.pop(other)
                status = rng.choice((Status.OK, Status.OK, Status.FAIL, Status.INFO))
                at = recorder.complete(row, status)
                if status is Status.OK:
                    held[other] = (at + 1000, owner)
                    grants += 1
            if held and rng.random() < 0.4:
                ended = rng.choice(list(held))
                kind = rng.choice((Op.RELEASE, Op.LOST, Op.FORCE_UNLOCK, Op.RENEW))
                recorder.invoke(kind, 1, 0, attempt=ended)
                ops += 1
                if kind is not Op.RENEW:
                    del held[ended]
            if rng.random() < 0.05:
                if rng.random() < 0.5:
                    live.look()
                recorder.invoke(Op.CLOSED, 2, 0)
                ops += 1
                # Its attempts are lost, granted or in flight.
                held = {n: one for n, one in held.items() if one[1] != 2}
                waiting = {n: one for n, one in waiting.items() if one[1] != 2}
            if rng.random() < 0.5:
                found = [(one.since_ns, one.attempt, one.node) for one in live.holds()]
                expected = [(at, n, "n7") for n, (at, _) in held.items()]
                assert found == sorted(expected, reverse=True)
                assert (live.grants, live.ops) == (grants, ops)


def test_the_holders_of_all_writers_are_seen(tmp_path: Path) -> None:
    live = Live(tmp_path)
    for n in (1, 2, 3):
        with Recorder(tmp_path, f"c{n}", {"node": f"n{n}"}) as recorder:
            recorder.complete(recorder.invoke(Op.TRY, n, 0, attempt=n), Status.OK)
    assert sorted(one.node for one in live.holds()) == ["n1", "n2", "n3"]


def test_one_step_between_two_measurements_contradicts_all() -> None:
    def taken(host_ns: int, offset_ns: int) -> Sample:
        at = host_ns + offset_ns
        return Sample(sent_ns=at, host_ns=host_ns, received_ns=at + 10)

    # Within 1000 ns the clocks may drift apart by 1 ns, in a second by a million.
    even, late = [taken(0, 0), taken(10**9, 500)], taken(1000, 100)
    assert not HostClock(even, PPM).contradicted
    stepped = HostClock([*even, late], PPM)
    assert stepped.contradicted
    at = np.array([0, 1000, 10**9], np.int64)
    assert (stepped.earliest(at) - at).tolist() == [0, 0, 0]
    assert (stepped.latest(at) - at).tolist() == [510, 510, 510]
