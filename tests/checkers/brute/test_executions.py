"""Expired writes and stalls against every course of events of a correct service."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from holdfast.checkers.properties.deadlock_freedom import check as deadlock
from holdfast.checkers.properties.no_expired_write import expired_writes
from holdfast.harness.core.case import Case, History
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import NO_TOKEN, Op, Status, attempt_id
from holdfast.harness.core.seeds import stream
from tests.checkers.brute.executions import END, Ask, Hold, courses, owner, rows
from tests.checkers.shorthand import case, table
from tests.draws import Draws

SLACK, GAP, LEASE = 3, 1, 5
"""ticks; the first two as `stalls` has them"""


def judged(written: list[dict[str, int]], **changes: object) -> Case:
    recorded = History(rows=table(written), strings=("", "db"), writers=("w",) * 10)
    promises = {"tokens": "none", "recovery_ns": 0}
    return case(recorded, promises=promises, lease_ns=LEASE * SECOND, **changes)


def owners(rng: random.Random) -> list[Ask]:
    """Two or three owners one after the other, more or less."""
    asks, at = [], 0
    for process in range(rng.randint(2, 3)):
        asks.append(owner(rng, process, 1, at))
        at = asks[-1].ret + rng.randint(0, 5)
    return asks


def served(ask: Ask, tick: int) -> dict[str, int]:
    """An accepted write of that owner."""
    return {
        "f": Op.SERVED_WRITE,
        "process": ask.process,
        "attempt": attempt_id(ask.process, ask.n),
        "key": 1,
        "token": NO_TOKEN,
        "arg": -1,
        "t_inv": tick * SECOND,
        "t_ret": tick * SECOND,
        "status": Status.OK,
        "writer": 9,
    }


def compare_expired(seed: int, n: int) -> Counter[str]:
    rng = stream(seed, "expired writes")
    counts: Counter[str] = Counter()
    while counts["runs"] < n:
        asks = owners(rng)
        late = rng.choice(asks)
        tick = late.ret + rng.randint(0, 12)
        possible = list(courses(asks))
        if not possible:
            counts["contradictions"] += 1
            continue
        counts["runs"] += 1
        which = asks.index(late)
        excused = any(
            hold is not None and hold[0] <= tick <= hold[1]
            for hold in (course[which] for course in possible)
        )
        accused = bool(list(expired_writes(judged([*rows(asks), served(late, tick)]))))
        assert not (accused and excused), (asks, late, tick)
        counts["accused" if accused else "excused" if excused else "missed"] += 1
    return counts


def test_no_write_is_called_expired_that_any_course_of_events_excuses(draws: Draws) -> None:
    counts = compare_expired(1, draws(2000, least=300))
    assert min(counts["accused"], counts["excused"]) >= draws(400), counts
    # In these courses leases end on time; a service may notice one late, and is granted that.
    assert counts["missed"] <= counts["accused"] * 0.3, counts


@pytest.mark.power
def test_no_write_is_called_expired_that_any_course_excuses_in_very_many_runs() -> None:
    compare_expired(2, 20_000)


def refused(rng: random.Random) -> list[Ask]:
    """Waiters that got nothing, one after the other or at once."""
    asks, at = [], rng.randint(2, 14)
    for n in range(rng.randint(1, 4)):
        ret = at + rng.choice((1, 2, 4, 9))
        asks.append(
            Ask(
                op=Op.ACQUIRE,
                process=5 + n,
                n=1,
                inv=at,
                ret=min(ret, END),
                status=Status.FAIL,
                ttl=LEASE,
            )
        )
        at = ret + rng.choice((-1, 0, 1, 2))
    return asks


def hulls(asks: list[Ask]) -> list[Hold]:
    """The spans in which somebody asked all the time, but for gaps of a tick."""
    spans: list[Hold] = []
    for ask in sorted(asks, key=lambda ask: ask.inv):
        if spans and ask.inv - spans[-1][1] <= GAP:
            spans[-1] = (spans[-1][0], max(spans[-1][1], ask.ret))
        else:
            spans.append((ask.inv, ask.ret))
    return spans


def stalled(hull: Hold, course: tuple[Hold | None, ...]) -> bool:
    """Whether the lock was free for as long as the slack, while it was asked for."""
    free_from = hull[0]
    for held in sorted(hold for hold in course if hold is not None):
        if min(held[0], hull[1]) - free_from >= SLACK:
            return True
        free_from = max(free_from, held[1])
    return hull[1] - free_from >= SLACK


def compare_stalls(seed: int, n: int) -> Counter[str]:
    rng = stream(seed, "stalls")
    counts: Counter[str] = Counter()
    while counts["runs"] < n:
        asks = owners(rng)[: rng.randint(1, 2)]
        if rng.random() < 0.25:
            at = rng.randint(0, 12)
            asks.append(
                Ask(
                    op=Op.ACQUIRE,
                    process=4,
                    n=1,
                    inv=at,
                    ret=at + 2,
                    status=Status.INFO,
                    ttl=LEASE,
                )
            )
        waiting = refused(rng)
        possible = courses(asks)
        first = next(possible, None)
        if first is None:
            counts["contradictions"] += 1
            continue
        counts["runs"] += 1
        spans = hulls(waiting)
        excused = not any(stalled(hull, first) for hull in spans) or any(
            not any(stalled(hull, course) for hull in spans) for course in possible
        )
        told = judged(rows([*asks, *waiting]), end_ns=END * SECOND)
        accused = bool(deadlock(told).findings)
        assert not (accused and excused), (asks, waiting)
        counts["accused" if accused else "excused" if excused else "missed"] += 1
    return counts


def test_no_stall_is_reported_that_any_course_of_events_excuses(draws: Draws) -> None:
    counts = compare_stalls(1, draws(2000))
    assert min(counts["accused"], counts["excused"]) >= draws(400), counts
    assert counts["missed"] <= counts["accused"], counts


@pytest.mark.power
def test_no_stall_is_reported_that_any_course_excuses_in_very_many_runs() -> None:
    compare_stalls(2, 20_000)
